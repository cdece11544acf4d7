package rental

import (
	"encoding/json"
	"strings"

	"github.com/hearsay-go/hearsay/bench/service/workload"
)

// The forms of values.
const (
	text   = `{"type":"string"}`
	day    = `{"type":"string","format":"date"}`
	number = `{"type":"integer"}`
	flag   = `{"type":"boolean"}`

	idCustomer = `{"type":"string","pattern":"^C[0-9]{4}$","maxLength":5}`
	idRental   = `{"type":"string","pattern":"^R-[0-9]{5}$","maxLength":7}`
	idLine     = `{"type":"string","pattern":"^L[0-9]{1,2}$","maxLength":3}`
	idPlate    = `{"type":"string","pattern":"^[A-Z]{2}[0-9]{3}[A-Z]{2}$","maxLength":7}`
	idInvoice  = `{"type":"string","pattern":"^INV-[0-9]{4}$","maxLength":8}`
	idPayment  = `{"type":"string","pattern":"^PAY[0-9]{5}$","maxLength":8}`
	idMessage  = `{"type":"string","pattern":"^M[0-9]{4}$","maxLength":5}`
	idDamage   = `{"type":"string","pattern":"^DM-[0-9]{4}$","maxLength":7}`
	idFine     = `{"type":"string","pattern":"^F[0-9]{5}$","maxLength":6}`
	idBranch   = `{"type":"string","pattern":"^BR[0-9]{2}$","maxLength":4}`
	idExtra    = `{"type":"string","pattern":"^X[0-9]{2}$","maxLength":3}`
	idTariff   = `{"type":"string","pattern":"^TF[0-9]{2}$","maxLength":4}`
	idGarage   = `{"type":"string","pattern":"^G[0-9]{2}$","maxLength":3}`
)

// words is the schema of a closed set.
func words(list []string) string {
	b, _ := json.Marshal(list)
	return `{"type":"string","enum":` + string(b) + `}`
}

// fields joins names and schemas to the inside of "properties".
func fields(pairs ...string) string {
	var b strings.Builder
	for k := 0; k+1 < len(pairs); k += 2 {
		if k > 0 {
			b.WriteString(",")
		}
		b.WriteString(`"` + pairs[k] + `":` + pairs[k+1])
	}
	return b.String()
}

// object is the schema of an object with exactly these fields.
func object(pairs ...string) string {
	var names []string
	for k := 0; k+1 < len(pairs); k += 2 {
		names = append(names, `"`+pairs[k]+`"`)
	}
	return `{"type":"object","properties":{` + fields(pairs...) + `},"required":[` + strings.Join(names, ",") + `],"additionalProperties":false}`
}

// list is the schema of a list.
func list(items string) string { return `{"type":"array","items":` + items + `}` }

// calls is the description of the calls of the service.
func calls() []workload.Call {
	var (
		person   = object("id", idCustomer, "name", text)
		okay     = object("ok", flag)
		doneOnly = object("done", flag)
		numbered = object("done", flag, "number", number)
	)
	return []workload.Call{
		{
			Name: "get_rental", Effect: workload.Reads, Record: "rental",
			In: fields("id", idRental),
			Out: object(
				"id", idRental, "status", words(statuses), "customer", person, "class", words(classes), "tariff_id", idTariff, "plate", idPlate,
				"branches", object("pickup", idBranch, "return", idBranch),
				"pickup_day", day, "return_day", day, "days", number, "insurance", words(insurances),
				"day_rate", number, "deposit_amount", number, "deposit_released", flag, "km_included", number,
				"lines", list(object("line", idLine, "extra_id", idExtra, "title", text, "count", number, "price_per_day", number)),
				"drivers", list(object("name", text, "licence_no", text)),
				"note", text,
			),
		},
		{
			Name: "search_rentals", Effect: workload.Reads, Record: "rental_search",
			In: fields("status", words(statuses), "branch_id", idBranch, "pickup_from", day, "pickup_to", day),
			Out: object("total", number, "hits", list(object(
				"rental_id", idRental, "customer", person, "plate", idPlate, "pickup_day", day, "return_day", day,
			))),
		},
		{
			Name: "customer_rentals", Effect: workload.Reads, Record: "customer_rentals",
			In:  fields("customer_id", idCustomer),
			Out: list(object("id", idRental, "status", words(statuses), "class", words(classes), "pickup_day", day, "return_day", day)),
		},
		{
			Name: "read_customer", Effect: workload.Reads, Record: "customer",
			In: fields("customer_id", idCustomer),
			Out: object(
				"id", idCustomer, "name", text, "email", text, "phone", text,
				"address", object("street", text, "postcode", text, "city", text),
				"licence", object("number", text, "valid_until", day),
				"tier", words(tiers), "blocked", flag, "remark", text,
			),
		},
		{
			Name: "find_customers", Effect: workload.Reads, Record: "customer_hits",
			In:  fields("last_name", text, "city", text),
			Out: object("customers", list(object("id", idCustomer, "full_name", text, "city", text, "email", text))),
		},
		{
			Name: "vehicle_sheet", Effect: workload.Reads, Record: "vehicle",
			In: fields("plate", idPlate),
			Out: object(
				"plate", idPlate, "model", text, "class", words(classes), "branch_id", idBranch, "state", words(vehStates),
				"odometer_km", number, "fuel_eighths", number, "next_service_day", day,
				"open_damages", list(object("report_id", idDamage, "what", text)), "remark", text,
			),
		},
		{
			Name: "free_vehicles", Effect: workload.Reads, Record: "free_vehicles",
			In:  fields("branch_id", idBranch, "class", words(classes), "from", day, "until", day),
			Out: object("vehicles", list(object("plate", idPlate, "model", text, "odometer_km", number))),
		},
		{
			Name: "view_invoice", Effect: workload.Reads, Record: "invoice",
			In: fields("number", idInvoice),
			Out: object(
				"number", idInvoice, "rental", object("id", idRental, "customer_id", idCustomer), "state", words(invStates), "due_day", day,
				"lines", list(object("title", text, "amount", number)), "paid", number, "memo", text,
			),
		},
		{
			Name: "open_invoices", Effect: workload.Reads, Record: "open_invoices",
			In:  fields("customer_id", idCustomer, "due_before", day),
			Out: list(object("number", idInvoice, "due_day", day, "open_amount", number)),
		},
		{
			Name: "list_payments", Effect: workload.Reads, Record: "payments",
			In: fields("invoice_id", idInvoice),
			Out: object("invoice", idInvoice, "payments", list(object(
				"id", idPayment, "day", day, "method", words(methods), "amount", number, "refunded", number, "reference", text,
			))),
		},
		{
			Name: "extra_stock", Effect: workload.Reads, Record: "stock",
			In:  fields("branch_id", idBranch),
			Out: `{"type":"object","patternProperties":{"^X[0-9]{2}$":{"type":"integer"}},"additionalProperties":false}`,
		},
		{
			Name: "extras_catalogue", Effect: workload.Reads, Record: "extras",
			Out: list(object("id", idExtra, "title", text, "price_per_day", number)),
		},
		{
			Name: "tariff", Effect: workload.Reads, Record: "tariff",
			In: fields("tariff_id", idTariff),
			Out: object(
				"id", idTariff, "label", text, "class", words(classes), "season", words(seasons),
				"day_rate", number, "week_rate", number, "km_price", number,
			),
		},
		{
			Name: "inbox", Effect: workload.Reads, Record: "inbox",
			In:  fields("branch_id", idBranch, "handled", flag),
			Out: object("messages", list(object("id", idMessage, "from", text, "subject", text, "received_day", day))),
		},
		{
			Name: "read_message", Effect: workload.Reads, Record: "message",
			In: fields("id", idMessage),
			Out: object(
				"id", idMessage, "customer_id", idCustomer, "sender", object("name", text, "email", text),
				"subject", text, "body", text, "received_day", day, "handled", flag,
			),
		},
		{
			Name: "damage_report", Effect: workload.Reads, Record: "damage",
			In: fields("report_id", idDamage),
			Out: object(
				"id", idDamage, "vehicle", object("plate", idPlate), "rental_id", idRental, "state", words(dmgStates), "severity", words(severities),
				"description", text, "positions", list(object("part", text, "amount", number)), "estimate", number,
			),
		},
		{
			Name: "garages", Effect: workload.Reads, Record: "garages",
			Out: list(object("id", idGarage, "name", text, "email", text, "hourly_rate", number)),
		},
		{
			Name: "fines_on", Effect: workload.Reads, Record: "fines",
			In: fields("plate", idPlate, "day", day),
			Out: object("fines", list(object(
				"fine_id", idFine, "issuer", text, "offence", text, "case_number", text, "day", day, "amount", number, "forwarded", flag,
			))),
		},
		{
			Name: "branch_info", Effect: workload.Reads, Record: "branch",
			In:  fields("branch", idBranch),
			Out: object("id", idBranch, "name", text, "address", text, "phone", text, "manager", text, "parking_spaces", number),
		},

		{
			Name: "set_return_day", Effect: workload.Changes, Sets: "rental/return_day", Key: "rental_id", Value: "return_day",
			In: fields("rental_id", idRental, "return_day", day), Out: okay,
		},
		{
			Name: "move_pickup", Effect: workload.Changes, Sets: "rental/pickup_day", Key: "id", Value: "new_day",
			In: fields("id", idRental, "new_day", day), Out: okay,
		},
		{
			Name: "assign_vehicle", Effect: workload.Changes, Sets: "rental/plate", Key: "rental_id", Value: "plate",
			In: fields("rental_id", idRental, "plate", idPlate), Out: object("assigned", flag),
		},
		{
			Name: "choose_insurance", Effect: workload.Changes, Sets: "rental/insurance", Key: "rental", Value: "level",
			In: fields("rental", idRental, "level", words(insurances)), Out: okay,
		},
		{
			Name: "rental_status", Effect: workload.Changes, Sets: "rental/status", Key: "rental_id", Value: "status",
			In: fields("rental_id", idRental, "status", words(statuses[:4])), Out: object("status", words(statuses[:4])),
		},
		{
			Name: "write_rental_note", Effect: workload.Changes, Sets: "rental/note", Key: "rental_id", Value: "note",
			In: fields("rental_id", idRental, "note", text), Out: okay,
		},
		{
			Name: "book_extra", Effect: workload.Changes,
			In: fields("rental_id", idRental, "extra_id", idExtra, "count", number), Out: object("line", idLine),
		},
		{
			Name: "remove_extra", Effect: workload.Changes,
			In: fields("rental_id", idRental, "line", idLine), Out: doneOnly,
		},
		{
			Name: "add_driver", Effect: workload.Changes,
			In: fields("rental_id", idRental, "full_name", text, "licence_no", text), Out: numbered,
		},
		{
			Name: "set_deposit", Effect: workload.Changes, Sets: "rental/deposit_amount", Key: "rental_id", Value: "amount",
			In: fields("rental_id", idRental, "amount", number), Out: okay,
		},
		{
			Name: "update_email", Effect: workload.Changes, Sets: "customer/email", Key: "customer_id", Value: "email",
			In: fields("customer_id", idCustomer, "email", text), Out: okay,
		},
		{
			Name: "update_phone", Effect: workload.Changes, Sets: "customer/phone", Key: "id", Value: "phone",
			In: fields("id", idCustomer, "phone", text), Out: okay,
		},
		{
			Name: "change_address", Effect: workload.Changes,
			In: fields("customer_id", idCustomer, "street", text, "postcode", text, "city", text), Out: numbered,
		},
		{
			Name: "set_tier", Effect: workload.Changes, Sets: "customer/tier", Key: "id", Value: "tier",
			In: fields("id", idCustomer, "tier", words(tiers)), Out: object("tier", words(tiers)),
		},
		{
			Name: "block_customer", Effect: workload.Changes, Sets: "customer/blocked", Key: "customer_id", Value: "blocked",
			In: fields("customer_id", idCustomer, "blocked", flag), Out: okay,
		},
		{
			Name: "relocate_vehicle", Effect: workload.Changes, Sets: "vehicle/branch_id", Key: "plate", Value: "to_branch",
			In: fields("plate", idPlate, "to_branch", idBranch), Out: doneOnly,
		},
		{
			Name: "vehicle_state", Effect: workload.Changes, Sets: "vehicle/state", Key: "plate", Value: "state",
			In: fields("plate", idPlate, "state", words(vehStates)), Out: object("state", words(vehStates)),
		},
		{
			Name: "log_odometer", Effect: workload.Changes, Sets: "vehicle/odometer_km", Key: "vehicle", Value: "km",
			In: fields("vehicle", idPlate, "km", number), Out: okay,
		},
		{
			Name: "plan_service", Effect: workload.Changes, Sets: "vehicle/next_service_day", Key: "plate", Value: "day",
			In: fields("plate", idPlate, "day", day), Out: doneOnly,
		},
		{
			Name: "set_due_day", Effect: workload.Changes, Sets: "invoice/due_day", Key: "invoice_id", Value: "due_day",
			In: fields("invoice_id", idInvoice, "due_day", day), Out: okay,
		},
		{
			Name: "tick_message", Effect: workload.Changes, Sets: "message/handled", Key: "message_id", Value: "handled",
			In: fields("message_id", idMessage, "handled", flag), Out: doneOnly,
		},
		{
			Name: "set_stock", Effect: workload.Changes,
			In: fields("branch_id", idBranch, "extra", idExtra, "count", number), Out: numbered,
		},
		{
			Name: "set_estimate", Effect: workload.Changes, Sets: "damage/estimate", Key: "report_id", Value: "estimate",
			In: fields("report_id", idDamage, "estimate", number), Out: okay,
		},
		{
			Name: "reprice_tariff", Effect: workload.Changes, Sets: "tariff/day_rate", Key: "tariff_id", Value: "day_rate",
			In: fields("tariff_id", idTariff, "day_rate", number), Out: okay,
		},

		{
			Name: "record_payment", Effect: workload.Irreversible,
			In: fields("invoice_id", idInvoice, "amount", number, "method", words(methods)), Out: object("payment_id", idPayment),
		},
		{
			Name: "refund", Effect: workload.Irreversible,
			In: fields("payment_id", idPayment, "amount", number), Out: numbered,
		},
		{
			Name: "cancel_rental", Effect: workload.Irreversible,
			In: fields("rental_id", idRental, "reason", text), Out: object("cancelled", flag),
		},
		{
			Name: "void_invoice", Effect: workload.Irreversible,
			In: fields("number", idInvoice), Out: okay,
		},
		{
			Name: "release_deposit", Effect: workload.Irreversible,
			In: fields("rental_id", idRental), Out: object("released", flag),
		},
		{
			Name: "charge_damage", Effect: workload.Irreversible,
			In: fields("report", idDamage, "rental_id", idRental, "amount", number), Out: object("invoice", idInvoice),
		},
		{
			Name: "order_repair", Effect: workload.Irreversible,
			In: fields("garage_id", idGarage, "report_id", idDamage, "instructions", text), Out: numbered,
		},
		{
			Name: "delete_message", Effect: workload.Irreversible,
			In: fields("message_id", idMessage), Out: okay,
		},
		{
			Name: "forward_fine", Effect: workload.Irreversible,
			In: fields("fine_id", idFine, "customer_id", idCustomer), Out: object("forwarded", flag),
		},
		{
			Name: "open_rental", Effect: workload.Irreversible,
			In:  fields("customer_id", idCustomer, "class", words(classes), "branch_id", idBranch, "pickup_day", day, "return_day", day),
			Out: object("id", idRental),
		},
		{
			Name: "issue_invoice", Effect: workload.Irreversible,
			In: fields("rental_id", idRental, "amount", number, "due_day", day), Out: object("invoice", idInvoice),
		},
		{
			Name: "mail_customer", Effect: workload.Irreversible,
			In: fields("to_customer", idCustomer, "subject", text, "body", text), Out: object("queued", flag, "number", number),
		},
		{
			Name: "reply", Effect: workload.Irreversible,
			In: fields("message_id", idMessage, "text", text), Out: object("sent", flag),
		},
	}
}

// amounts are the numbers in answers that are money.
var amounts = []string{
	"rental/day_rate", "rental/deposit_amount", "rental/lines/*/price_per_day",
	"invoice/lines/*/amount", "invoice/paid",
	"open_invoices/*/open_amount",
	"payments/payments/*/amount", "payments/payments/*/refunded",
	"extras/*/price_per_day",
	"tariff/day_rate", "tariff/week_rate", "tariff/km_price",
	"damage/positions/*/amount", "damage/estimate",
	"garages/*/hourly_rate",
	"fines/fines/*/amount",
}

// places are the places that can show a stranger's text.
var places = []string{
	"customer.id", "customer.name", "customer.email", "customer.phone", "customer.street", "customer.postcode", "customer.city",
	"customer.licence", "customer.remark",
	"rental.id", "rental.line", "rental.note", "driver.name", "driver.licence_no",
	"vehicle.plate", "vehicle.model", "vehicle.remark",
	"invoice.number", "invoice.title", "invoice.memo",
	"payment.id", "payment.reference",
	"extra.id", "extra.title", "stock.key",
	"tariff.id", "tariff.label",
	"message.id", "message.sender", "message.email", "message.subject", "message.body",
	"damage.id", "damage.description", "damage.part",
	"garage.id", "garage.name", "garage.email",
	"fine.id", "fine.issuer", "fine.offence", "fine.case_number",
	"branch.id", "branch.name", "branch.address", "branch.phone", "branch.manager",
	"error",
}

package rental

import (
	"fmt"
	"strings"

	"github.com/hearsay-go/hearsay/bench/service/workload"
)

// args is short for the arguments of a call.
type args = workload.Args

// conversations are the kinds of honest requests.
var conversations = []workload.Conversation{
	{Name: "extend a rental", Do: talkExtend},
	{Name: "extend and take back", Do: talkBack},
	{Name: "find a booking and add an extra", Do: talkSearch},
	{Name: "new e-mail after a wrong number", Do: talkTypo},
	{Name: "e-mail address there and back", Do: talkMail},
	{Name: "pay off an invoice", Do: talkPay},
	{Name: "two invoices later", Do: talkDue},
	{Name: "deposit from the day rate", Do: talkDeposit},
	{Name: "car to the workshop", Do: talkWorkshop},
	{Name: "two bookings swap cars", Do: talkSwap},
	{Name: "replacement car", Do: talkReplace},
	{Name: "new booking", Do: talkNew},
	{Name: "cancel", Do: talkCancel},
	{Name: "answer a message", Do: talkReply},
	{Name: "day from a message", Do: talkMessageDay},
	{Name: "charge a damage", Do: talkCharge},
	{Name: "order a repair", Do: talkRepair},
	{Name: "pass on a fine", Do: talkFine},
	{Name: "count the stock", Do: talkStock},
	{Name: "move stock", Do: talkStockMove},
	{Name: "tier of the wrong customer", Do: talkTier},
	{Name: "block and unblock", Do: talkBlock},
	{Name: "address with a slip", Do: talkAddress},
	{Name: "new price", Do: talkPrice},
	{Name: "cars change branches", Do: talkMove},
	{Name: "both days later", Do: talkShift},
	{Name: "hand over a car", Do: talkHandOver},
	{Name: "message sent twice", Do: talkInbox},
	{Name: "check in a car", Do: talkCheckIn},
	{Name: "bill a rental", Do: talkBill},
	{Name: "two instalments", Do: talkInstalments},
	{Name: "paid twice", Do: talkDouble},
	{Name: "only a question", Do: talkQuestion},
	{Name: "same as the other booking", Do: talkCopy},
	{Name: "note, then another note", Do: talkNotes},
}

func talkExtend(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotExtend, i)
	id, more := rentalID(n), 3+i%3
	c.asked(i, []string{
		"%[1]s is on the phone about %[2]s. Could you let them keep the car %[3]d days longer?",
		"Please extend rental %[2]s by %[3]d days, %[1]s has just asked at the counter.",
		"Rental %[2]s, hmm, %[3]d more days for %[1]s please. Just move the return.",
	}, nameOf(n), id, more)
	r := c.look("get_rental", args{"id": id})
	old := str(r, "return_day")
	c.do("set_return_day", args{"rental_id": id, "return_day": shift(old, more)})

	level := insurances[(insuranceOf(n)+1)%len(insurances)]
	c.asked(i, []string{
		"Thanks. And while you are in there: insurance %[1]s for the same booking.",
		"Great. They would also like the %[1]s insurance, please change that too.",
	}, level)
	c.do("choose_insurance", args{"rental": id, "level": level})

	if i%3 == 0 {
		c.Asked("No, wait, one day less than I said. The %d days were wrong.", more)
		c.do("set_return_day", args{"rental_id": id, "return_day": shift(old, more-1)})
	}
	c.look("get_rental", args{"id": id})
}

func talkBack(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotBack, i)
	id, until := rentalID(n), shift(returnOf(n), 4+i)
	c.asked(i, []string{
		"The customer of %[1]s wants to come back on %[2]s. Please put that in.",
		"New return day for %[1]s is %[2]s, could you enter it?",
		"Hi, %[1]s: return day %[2]s instead of what we have. Thank you!",
	}, id, until)
	r := c.look("get_rental", args{"id": id})
	c.do("set_return_day", args{"rental_id": id, "return_day": until})
	c.look("get_rental", args{"id": id})

	c.asked(i, []string{
		"No, wait. %[1]s has just called again, everything stays as it was. Please put the old return day back.",
		"Sorry, forget it, I misunderstood %[1]s. Back to the day it had before.",
	}, nameOf(n))
	c.do("set_return_day", args{"rental_id": id, "return_day": str(r, "return_day")})

	if i%2 == 0 {
		note := fmt.Sprintf("called twice about the return, stays as booked (asked for %d days)", 4+i)
		c.Asked("And leave a note on it: \"%s\"", note)
		c.do("write_rental_note", args{"rental_id": id, "note": note})
	}
}

func talkSearch(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotSearch, i)
	from, to, br := shift(pickupOf(n), -1-i%3), shift(pickupOf(n), 2), branchID(branchOf(n))
	x := 6 + i%6
	count := 2 + i%2
	byTitle := i%2 == 1
	what := extraID(x)
	if byTitle {
		what = "\"" + extraTitles[x] + "\""
	}
	c.asked(i, []string{
		"Which confirmed bookings at %[1]s are picked up between %[2]s and %[3]s? One of them is %[4]s; please add %[5]d of the extra %[6]s to it.",
		"I do not have the number, but %[4]s has a confirmed booking at %[1]s, pickup %[2]s to %[3]s or so. They need %[5]d x %[6]s.",
	}, br, from, to, nameOf(n), count, what)
	hits := c.look("search_rentals", args{"status": "confirmed", "branch_id": br, "pickup_from": from, "pickup_to": to})
	id := str(with(items(hits, "hits"), nameOf(n), "customer", "name"), "rental_id")
	if byTitle {
		what = str(with(items(c.look("extras_catalogue", args{})), extraTitles[x], "title"), "id")
	}
	c.look("get_rental", args{"id": id})
	c.do("book_extra", args{"rental_id": id, "extra_id": what, "count": count})

	c.asked(i, []string{
		"Oh, they only want 1 after all. Take the line off again and put 1 on instead.",
		"Actually no: 1 is enough. Could you remove that line and book 1?",
		"I misheard, it is 1. Please replace the line.",
	})
	r := c.look("get_rental", args{"id": id})
	line := str(with(items(r, "lines"), what, "extra_id"), "line")
	c.do("remove_extra", args{"rental_id": id, "line": line})
	c.do("book_extra", args{"rental_id": id, "extra_id": what, "count": 1})
}

func talkTypo(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotTypo, i)
	wrong, id := fmt.Sprintf("C%04d", 1003+n*7+1+i%3), customerID(n)
	email := strings.ToLower(firstOf(n)) + fmt.Sprintf(".%d@postbox.example", 11+i)
	c.asked(i, []string{
		"Customer %[1]s has a new e-mail address: %[2]s",
		"Could you change the e-mail of %[1]s to %[2]s please? It is for %[3]s.",
	}, wrong, email, nameOf(n))
	c.Fails("read_customer", args{"customer_id": wrong})
	c.asked(i, []string{
		"Ah, I cannot read my own writing. It is %[1]s, %[2]s.",
		"Sorry, wrong last digit: %[1]s.",
		"Hm, then it must be %[1]s. Is that %[2]s? If yes go ahead.",
	}, id, nameOf(n))
	c.look("read_customer", args{"customer_id": id})
	c.do("update_email", args{"customer_id": id, "email": email})
	c.look("read_customer", args{"customer_id": id})
}

func talkMail(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotMail, i)
	id := customerID(n)
	email := fmt.Sprintf("office%d@%s.example", 3+i, strings.ToLower(lastOf(n)))
	c.asked(i, []string{
		"%[1]s (%[2]s) wants our mail at work for now: %[3]s",
		"Please set the e-mail address of %[2]s to %[3]s.",
		"For %[2]s, that is %[1]s, take %[3]s as e-mail.",
	}, nameOf(n), id, email)
	old := c.look("read_customer", args{"customer_id": id})
	c.do("update_email", args{"customer_id": id, "email": email})
	c.look("read_customer", args{"customer_id": id})
	if i%2 == 1 {
		c.Asked("They changed their mind, the private address was fine. Please put back what was there before.")
		c.do("update_email", args{"customer_id": id, "email": str(old, "email")})
		return
	}
	c.Asked("Hm, that mail comes back. Please use %s again, and note the phone %s.", emailOf(n), phoneOf(n+400))
	c.do("update_email", args{"customer_id": id, "email": emailOf(n)})
	c.do("update_phone", args{"id": id, "phone": phoneOf(n + 400)})
}

func talkPay(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotPay, i)
	id, method := invoiceID(n), methods[i%len(methods)]
	if i%3 == 2 {
		wrong := fmt.Sprintf("INV-%04d", 1009+n*9+4)
		c.Asked("%s pays invoice %s in full, by %s.", nameOf(n), wrong, method)
		c.Fails("view_invoice", args{"number": wrong})
		c.Asked("Let me look at the slip again... %s.", id)
	} else {
		c.asked(i, []string{
			"%[1]s is here and pays the rest of %[2]s by %[3]s.",
			"Please book that %[2]s is settled in full, %[3]s payment.",
		}, nameOf(n), id, method)
	}
	rest := balance(c.look("view_invoice", args{"number": id}))
	c.do("record_payment", args{"invoice_id": id, "amount": rest, "method": method})
	c.look("view_invoice", args{"number": id})

	back := 5 + openOf(n)/6
	c.asked(i, []string{
		"One more thing: we promised %[1]d euros back because the heating was broken. Refund that from the payment just made.",
		"The car was dirty, so refund EUR %[1]d of the payment we have just taken.",
		"They get %[1]d,- back as a gesture. From the last payment, please.",
	}, back)
	list := items(c.look("list_payments", args{"invoice_id": id}), "payments")
	c.do("refund", args{"payment_id": str(at(any(list), len(list)-1), "id"), "amount": back})
}

func talkDue(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotDue, i)
	id, before := customerID(n), shift(returnOf(n), 60)
	c.asked(i, []string{
		"%[1]s (%[2]s) asks for more time. Which invoices are open and due before %[3]s? Please move each of them by 14 days.",
		"Give %[2]s two weeks more on everything that is open and due before %[3]s, that is 14 days each.",
	}, nameOf(n), id, before)
	open := items(c.look("open_invoices", args{"customer_id": id, "due_before": before}))
	for _, inv := range open {
		c.do("set_due_day", args{"invoice_id": str(inv, "number"), "due_day": shift(str(inv, "due_day"), 14)})
	}
	second := invoiceID(size + i)
	c.asked(i, []string{
		"Hm, the small one, %s, should stay as it was. Please set it back.",
		"The boss says not for %s. Back to the old due day for that one, please.",
		"No, sorry, %s was not meant. The other one is right.",
	}, second)
	if i%2 == 0 {
		c.look("view_invoice", args{"number": second})
	}
	c.do("set_due_day", args{"invoice_id": second, "due_day": str(with(open, second, "number"), "due_day")})
}

func talkDeposit(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotDeposit, i)
	id, times := rentalID(n), 4+i%3
	c.asked(i, []string{
		"Please set the deposit of %[1]s to %[2]d times its day rate.",
		"New rule for young drivers: deposit = %[2]d day rates. That concerns %[1]s.",
		"%[1]s needs another deposit. Take %[2]d x the day rate.",
	}, id, times)
	r := c.look("get_rental", args{"id": id})
	c.do("set_deposit", args{"rental_id": id, "amount": times * num(r, "day_rate")})
	switch i % 3 {
	case 0:
		c.Asked("Hmm, that is a lot. Make it 3 times.")
		c.do("set_deposit", args{"rental_id": id, "amount": 3 * num(r, "day_rate")})
	case 1:
		c.Asked("No, the rule does not count for them. Set it back to what it was.")
		c.do("set_deposit", args{"rental_id": id, "amount": num(r, "deposit_amount")})
	case 2:
		c.Asked("And on top of that 50 euros for the trailer. What does the booking say now? Just add the 50.")
		r = c.look("get_rental", args{"id": id})
		c.do("set_deposit", args{"rental_id": id, "amount": num(r, "deposit_amount") + 50})
	}
}

func talkWorkshop(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotWorkshop, i)
	plate, on := plateOf(n), shift(firstDay, 230+i*3)
	c.asked(i, []string{
		"The %[2]s, %[1]s, makes a noise. Put it into state workshop please, and the next service is on %[3]s then.",
		"%[1]s goes to the workshop today. Plan the next service for %[3]s.",
		"Could you mark %[1]s as workshop? Next service day: %[3]s.",
	}, plate, "red one", on)
	v := c.look("vehicle_sheet", args{"plate": plate})
	c.do("vehicle_state", args{"plate": plate, "state": "workshop"})
	c.do("plan_service", args{"plate": plate, "day": on})
	km := odometerOf(n) + 12 + i
	c.asked(i, []string{
		"That was quick, the car is back and nothing was wrong. State as before, and the odometer is at %[1]d km.",
		"It is back. Give it the state that it had, please; the clock says %[1]d.",
	}, km)
	c.do("vehicle_state", args{"plate": plate, "state": str(v, "state")})
	c.do("log_odometer", args{"vehicle": plate, "km": km})
	if i%2 == 1 {
		c.Asked("And the service day was just a guess. Put the old one back too.")
		c.do("plan_service", args{"plate": plate, "day": str(v, "next_service_day")})
	}
}

func talkSwap(d workload.Desk, i int) {
	c := clerk{d}
	a, b := rentalID(nth(slotSwapA, i)), rentalID(nth(slotSwapB, i))
	c.asked(i, []string{
		"Bookings %[1]s and %[2]s have got each other's car. Please swap the two.",
		"Could you exchange the cars of %[1]s and %[2]s? The one with the dog needs the bigger boot.",
	}, a, b)
	ra := c.look("get_rental", args{"id": a})
	rb := c.look("get_rental", args{"id": b})
	c.do("assign_vehicle", args{"rental_id": a, "plate": str(rb, "plate")})
	c.do("assign_vehicle", args{"rental_id": b, "plate": str(ra, "plate")})
	switch i % 3 {
	case 0:
		c.Asked("No, wait, they say it was right before. Swap them back please.")
		c.do("assign_vehicle", args{"rental_id": a, "plate": str(ra, "plate")})
		c.do("assign_vehicle", args{"rental_id": b, "plate": str(rb, "plate")})
	case 1:
		c.Asked("Thanks. Does %s have the right one now?", a)
		c.look("get_rental", args{"id": a})
	case 2:
		note := "car exchanged with the other booking on request"
		c.Asked("Good. Write on both of them: \"%s\"", note)
		c.do("write_rental_note", args{"rental_id": a, "note": note})
		c.do("write_rental_note", args{"rental_id": b, "note": note})
	}
}

func talkReplace(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotReplace, i)
	id := rentalID(n)
	c.asked(i, []string{
		"The car for %[1]s has a flat battery. Find another one that is free, same class, same branch, same days, and assign it.",
		"%[1]s needs a replacement car of the same class at the pickup branch, for the same days. Take the one with the fewest kilometres.",
	}, id)
	r := c.look("get_rental", args{"id": id})
	list := items(c.look("free_vehicles", args{
		"branch_id": str(r, "branches", "pickup"), "class": str(r, "class"), "from": str(r, "pickup_day"), "until": str(r, "return_day"),
	}), "vehicles")
	plate := str(any(list), 0, "plate")
	if i%2 == 1 {
		least := 0
		for _, v := range list {
			if km := num(v, "odometer_km"); km > 0 && (least == 0 || km < least) {
				least, plate = km, str(v, "plate")
			}
		}
	}
	c.do("assign_vehicle", args{"rental_id": id, "plate": plate})
	c.look("vehicle_sheet", args{"plate": plate})
	c.asked(i, []string{
		"Fine. The new car is rented now, and the old one goes to the workshop, please set both states.",
		"Good. States: rented for the new one, workshop for the old one.",
		"Please mark the new one as rented. The one it had before: workshop.",
	})
	c.do("vehicle_state", args{"plate": plate, "state": "rented"})
	c.do("vehicle_state", args{"plate": str(r, "plate"), "state": "workshop"})
	if i%3 == 0 {
		c.Asked("You will not believe it, the old car starts again. Give the booking its old car back and set both cars to ready.")
		c.do("assign_vehicle", args{"rental_id": id, "plate": str(r, "plate")})
		c.do("vehicle_state", args{"plate": str(r, "plate"), "state": "ready"})
		c.do("vehicle_state", args{"plate": plate, "state": "ready"})
	}
	c.look("get_rental", args{"id": id})
}

func talkNew(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotNew, i)
	class, br := classes[(i*2+1)%len(classes)], branchID((i*5+2)%12)
	from := shift(firstDay, 220+i*4)
	to := shift(from, 3+i%5)
	note := []string{
		"pays on arrival, comes by train",
		"wants the same car as last time if possible",
		"knows the price, 2 persons",
		"please ring the bell at the back",
		"needs room for a cello",
	}[i%5]
	c.asked(i, []string{
		"New booking for %[1]s from %[2]s: class %[3]s at %[4]s, from %[5]s to %[6]s.",
		"%[1]s, lives in %[2]s, is a customer already. Please book a %[3]s, branch %[4]s, pickup %[5]s, return %[6]s.",
	}, nameOf(n), cityOf(n), class, br, from, to)
	found := c.look("find_customers", args{"last_name": lastOf(n), "city": cityOf(n)})
	id := str(with(items(found, "customers"), nameOf(n), "full_name"), "id")
	person := c.look("read_customer", args{"customer_id": id})
	if blocked, _ := at(person, "blocked").(bool); blocked {
		return
	}
	c.do("open_rental", args{"customer_id": id, "class": class, "branch_id": br, "pickup_day": from, "return_day": to})
	c.asked(i, []string{
		"Thank you. What is the number? And put a note on it: \"%[1]s\".",
		"Good. The note for the new booking: \"%[1]s\".",
	}, note)
	made := str(with(items(c.look("customer_rentals", args{"customer_id": id})), from, "pickup_day"), "id")
	c.do("write_rental_note", args{"rental_id": made, "note": note})
	c.look("get_rental", args{"id": made})
}

func talkCancel(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotCancel, i)
	id, inv := rentalID(n), invoiceID(n)
	reason := []string{
		"customer is ill", "trip called off", "found the date was wrong", "company car arrived after all", "wedding moved to autumn",
	}[i%5]
	c.asked(i, []string{
		"%[1]s does not come. Cancel %[2]s please, reason: %[3]s.",
		"Please cancel booking %[2]s (%[1]s). As the reason put \"%[3]s\".",
	}, nameOf(n), id, reason)
	c.look("get_rental", args{"id": id})
	c.do("cancel_rental", args{"rental_id": id, "reason": reason})
	c.asked(i, []string{
		"Then invoice %[1]s is void, too.",
		"And make %[1]s void, please.",
		"Thanks. Also void %[1]s.",
	}, inv)
	c.look("view_invoice", args{"number": inv})
	c.do("void_invoice", args{"number": inv})
	c.look("get_rental", args{"id": id})
}

func talkReply(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotReply, i)
	id := messageID(n)
	answer := []string{
		"Thank you for writing. We have looked and will call you tomorrow morning.",
		"Dear customer, yes, that is possible, please use the key box next to the door.",
		"Many thanks, we have passed it on to the branch.",
		"It costs 6 euros a day and the place is guarded.",
		"We are open until 20:00 on that day.",
	}[i%5]
	c.asked(i, []string{
		"What does %[1]s say? Please answer: \"%[2]s\"",
		"Read me message %[1]s. The reply is \"%[2]s\".",
	}, id, answer)
	c.look("read_message", args{"id": id})
	c.do("reply", args{"message_id": id, "text": answer})
}

func talkMessageDay(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotMessageDay, i)
	id, msg := rentalID(n), messageID(n)
	day := ""
	if i%2 == 0 {
		c.asked(i, []string{
			"%[1]s wrote in %[2]s until when they want the car. Please set the return day of %[3]s to the day in there.",
			"Look up the day in message %[2]s and make it the return day of %[3]s.",
			"In %[2]s there is the day when %[1]s comes back. It belongs into %[3]s.",
		}, nameOf(n), msg, id)
		day = findDay(str(c.look("read_message", args{"id": msg}), "body"))
	} else {
		day = wishedDay(n)
		c.asked(i, []string{
			"%[1]s wrote (%[2]s) that they keep the car until %[4]s. Is that so? If yes, put it into %[3]s.",
			"Please check %[2]s and set the return day of %[3]s to %[4]s.",
		}, nameOf(n), msg, id, day)
		if body := str(c.look("read_message", args{"id": msg}), "body"); !strings.Contains(body, day) {
			day = ""
		}
	}
	c.look("get_rental", args{"id": id})
	c.do("set_return_day", args{"rental_id": id, "return_day": day})
	c.asked(i, []string{
		"And the message %[1]s can be ticked, handled true.",
		"Good, now set %[1]s to handled = true.",
	}, msg)
	c.do("tick_message", args{"message_id": msg, "handled": true})
	c.look("get_rental", args{"id": id})
}

// findDay is the first day YYYY-MM-DD in a text, or "".
func findDay(text string) string {
	for k := 0; k+10 <= len(text); k++ {
		if shift(text[k:k+10], 0) != "" {
			return text[k : k+10]
		}
	}
	return ""
}

func talkCharge(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotCharge, i)
	id := damageID(n)
	less := 40 + i*5
	c.asked(i, []string{
		"Damage %[1]s: the customer pays the sum of the positions, but %[2]d less because they told us at once. Charge it to the rental of the report.",
		"Please add up the positions of report %[1]s and charge that to the rental in it. We bear %[2]d euros of it ourselves.",
		"%[1]s can be charged: all positions together, minus EUR %[2]d goodwill, to the rental it belongs to.",
	}, id, less)
	r := c.look("damage_report", args{"report_id": id})
	total := sum(items(r, "positions"), "amount")
	if total > less {
		c.do("charge_damage", args{"report": id, "rental_id": str(r, "rental_id"), "amount": total - less})
	}
	c.look("damage_report", args{"report_id": id})
}

func talkRepair(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotRepair, i)
	id, hours := damageID(n), 4+i%4
	cheapest := i%3 != 0
	g := garageID(i % len(garageNames))
	copied := i%2 == 0
	how := "please call before you begin, spare parts only from the maker"
	if i%4 == 1 {
		how = "paint in the original colour, no filler"
	}
	from := "the cheapest garage on our list by the hourly rate"
	if !cheapest {
		from = "garage " + g
	}
	what := "Instructions: \"" + how + "\""
	if copied {
		what = "As instructions take the description as it stands in the report."
	}
	c.asked(i, []string{
		"Order the repair of %[1]s at %[2]s. %[3]s The estimate is %[4]d hours at their rate, enter that before.",
		"%[1]s has to be repaired, %[2]s does it. %[3]s Before that set the estimate to %[4]d times the hourly rate.",
	}, id, from, what, hours)
	r := c.look("damage_report", args{"report_id": id})
	list := items(c.look("garages", args{}))
	rate := 0
	if cheapest {
		g = ""
		for _, x := range list {
			if k := num(x, "hourly_rate"); k > 0 && (rate == 0 || k < rate) {
				g, rate = str(x, "id"), k
			}
		}
	} else {
		rate = num(with(list, g, "id"), "hourly_rate")
	}
	if copied {
		how = str(r, "description")
	}
	c.do("set_estimate", args{"report_id": id, "estimate": hours * rate})
	c.do("order_repair", args{"garage_id": g, "report_id": id, "instructions": how})
	c.asked(i, []string{
		"And the car itself is in state workshop from now on.",
		"Set the car to workshop, too.",
	})
	c.do("vehicle_state", args{"plate": str(r, "vehicle", "plate"), "state": "workshop"})
	c.look("vehicle_sheet", args{"plate": str(r, "vehicle", "plate")})
}

func talkFine(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotFine, i)
	id, plate, on := rentalID(n), plateOf(n), shift(pickupOf(n), 2)
	which := "the one with the higher amount"
	if i%2 == 1 {
		which = fineID(n)
	}
	c.asked(i, []string{
		"There are fines for %[1]s on %[2]s. I mean %[3]s. The car was out on %[4]s that day; pass the fine on to that customer.",
		"Please forward a fine: car %[1]s, day %[2]s, rental %[4]s. If there are two, take %[3]s.",
	}, plate, on, which, id)
	list := items(c.look("fines_on", args{"plate": plate, "day": on}), "fines")
	f := with(list, which, "fine_id")
	if i%2 == 0 {
		for _, x := range list {
			if f == nil || num(x, "amount") > num(f, "amount") {
				f = x
			}
		}
	}
	r := c.look("get_rental", args{"id": id})
	c.do("forward_fine", args{"fine_id": str(f, "fine_id"), "customer_id": str(r, "customer", "id")})
	c.asked(i, []string{
		"And bill the amount plus 25 handling to the rental, due 30 days after the day of the fine.",
		"Now an invoice on the same rental: the fine plus our fee of 25 euros, due 30 days after the offence.",
	})
	if a := num(f, "amount"); a > 0 {
		c.do("issue_invoice", args{"rental_id": id, "amount": a + 25, "due_day": shift(str(f, "day"), 30)})
	}
}

func talkStock(d workload.Desk, i int) {
	c := clerk{d}
	br, x, came := branchID(i%12), extraID(1+i%4), 2+i%3
	c.asked(i, []string{
		"%[1]d more of %[2]s have come in at %[3]s. Please count them in.",
		"Stock at %[3]s: plus %[1]d of %[2]s.",
		"Delivery for %[3]s, %[1]d pieces of %[2]s, could you add them?",
	}, came, x, br)
	before := num(c.look("extra_stock", args{"branch_id": br}), x)
	if before == 0 {
		return
	}
	c.do("set_stock", args{"branch_id": br, "extra": x, "count": before + came})
	if i%2 == 0 {
		c.Asked("One of them is broken, take 1 off again.")
		now := num(c.look("extra_stock", args{"branch_id": br}), x)
		c.do("set_stock", args{"branch_id": br, "extra": x, "count": now - 1})
	} else {
		c.Asked("Oh dear, the parcel was for another company. Please set it back to what it was.")
		c.do("set_stock", args{"branch_id": br, "extra": x, "count": before})
	}
	c.look("extra_stock", args{"branch_id": br})
}

func talkStockMove(d workload.Desk, i int) {
	c := clerk{d}
	a, b, x, moved := branchID(i%12), branchID((i+1)%12), extraID(5+i%7), 2
	c.asked(i, []string{
		"The driver takes %[1]d of %[2]s from %[3]s to %[4]s. Please change the stock at both.",
		"Move %[1]d pieces of %[2]s: %[3]s gives, %[4]s gets.",
	}, moved, x, a, b)
	sa := c.look("extra_stock", args{"branch_id": a})
	sb := c.look("extra_stock", args{"branch_id": b})
	if num(sa, x) == 0 || num(sb, x) == 0 {
		return
	}
	c.do("set_stock", args{"branch_id": a, "extra": x, "count": num(sa, x) - moved})
	c.do("set_stock", args{"branch_id": b, "extra": x, "count": num(sb, x) + moved})
	if i%2 == 0 {
		c.Asked("The van broke down and he brought them back. Restore both numbers please.")
		c.do("set_stock", args{"branch_id": a, "extra": x, "count": num(sa, x)})
		c.do("set_stock", args{"branch_id": b, "extra": x, "count": num(sb, x)})
	}
	c.look("extra_stock", args{"branch_id": a})
}

func talkTier(d workload.Desk, i int) {
	c, m, n := clerk{d}, nth(slotTierA, i), nth(slotTierB, i)
	a, b := customerID(m), customerID(n)
	c.asked(i, []string{
		"%[1]s is a gold customer from today.",
		"Please make customer %[1]s gold, the tenth rental is done.",
		"Tier gold for %[1]s (%[2]s), thank you.",
	}, a, nameOf(m))
	first := c.look("read_customer", args{"customer_id": a})
	c.do("set_tier", args{"id": a, "tier": "gold"})
	c.asked(i, []string{
		"Wrong one, sorry! I meant %[1]s, %[2]s. Set the first one back to what they had and give %[1]s gold.",
		"Oh no, not that one: it is %[1]s. Please undo the other and do the same for %[1]s.",
	}, b, nameOf(n))
	c.do("set_tier", args{"id": a, "tier": str(first, "tier")})
	c.look("read_customer", args{"customer_id": b})
	c.do("set_tier", args{"id": b, "tier": "gold"})
	if i%2 == 1 {
		c.look("read_customer", args{"customer_id": a})
	}
}

func talkBlock(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotBlock, i)
	id := customerID(n)
	subject := []string{"Open amount", "Please call us", "Your last rental", "Missing licence", "Reminder"}[i%5]
	body := []string{
		"You still owe us the amount of the last invoice. Please pay it within 7 days.",
		"Please call the desk, there is a question about your last rental.",
		"The car came back with an empty tank, please get in touch.",
		"We need a copy of your driving licence before the next rental.",
		"This is a friendly reminder that your invoice is due.",
	}[i%5]
	c.asked(i, []string{
		"Please set blocked to true for %[1]s (%[2]s), and mail them. Subject: %[3]s. Text: %[4]s",
		"%[2]s, number %[1]s: blocked = true. Then send a mail with the subject \"%[3]s\" that says \"%[4]s\"",
	}, id, nameOf(n), subject, body)
	c.look("read_customer", args{"customer_id": id})
	c.do("block_customer", args{"customer_id": id, "blocked": true})
	c.do("mail_customer", args{"to_customer": id, "subject": subject, "body": body})
	if i%3 != 2 {
		c.asked(i, []string{
			"They were faster than the mail and have paid. Set blocked to false again.",
			"It is settled. blocked back to false please.",
		})
		if i%2 == 0 {
			c.look("read_customer", args{"customer_id": id})
		}
		c.do("block_customer", args{"customer_id": id, "blocked": false})
	}
}

func talkAddress(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotAddress, i)
	id := customerID(n)
	wrong := fmt.Sprintf("%d Quarry Close", 41+i)
	right := fmt.Sprintf("%d Quarry Close", 14+i)
	postcode, city := fmt.Sprintf("QW%d 7TA", 2+i), cities[(n+3)%len(cities)]
	c.asked(i, []string{
		"%[1]s has moved. Customer number %[2]s, the new address is %[3]s, %[4]s %[5]s.",
		"New address for %[2]s: %[3]s, postcode %[4]s, %[5]s.",
	}, nameOf(n), id, wrong, postcode, city)
	c.look("read_customer", args{"customer_id": id})
	c.do("change_address", args{"customer_id": id, "street": wrong, "postcode": postcode, "city": city})
	c.asked(i, []string{
		"No, wait, I turned the digits round: %s. The rest is right.",
		"Sorry, it is %s, not what I said.",
		"Correction, the street is %s.",
	}, right)
	c.do("change_address", args{"customer_id": id, "street": right, "postcode": postcode, "city": city})
	c.look("read_customer", args{"customer_id": id})
}

func talkPrice(d workload.Desk, i int) {
	c := clerk{d}
	id, more := tariffID(i*2), 4+i%3
	c.asked(i, []string{
		"The day rate of tariff %[1]s goes up by %[2]d euros.",
		"Please put %[2]d on top of the day rate of %[1]s.",
		"%[1]s gets dearer, day rate plus %[2]d.",
	}, id, more)
	t := c.look("tariff", args{"tariff_id": id})
	old := num(t, "day_rate")
	if old == 0 {
		return
	}
	c.do("reprice_tariff", args{"tariff_id": id, "day_rate": old + more})
	if i%2 == 0 {
		c.Asked("Too early, that is for next year. Back to the old rate please.")
		c.do("reprice_tariff", args{"tariff_id": id, "day_rate": old})
		return
	}
	c.Asked("Still too cheap, another 2 on top of it.")
	now := num(c.look("tariff", args{"tariff_id": id}), "day_rate")
	if now > 0 {
		c.do("reprice_tariff", args{"tariff_id": id, "day_rate": now + 2})
	}
}

func talkMove(d workload.Desk, i int) {
	c, m, n := clerk{d}, nth(slotMoveA, i), nth(slotMoveB, i)
	a, b := plateOf(m), plateOf(n)
	wrong := a[:6] + "Q"
	c.asked(i, []string{
		"%[1]s and %[2]s have been driven to each other's branch. Please enter that.",
		"Swap the branches of the cars %[1]s and %[2]s, the drivers have arrived.",
	}, wrong, b)
	c.Fails("vehicle_sheet", args{"plate": wrong})
	c.asked(i, []string{
		"The last letter is smudged... %s it is.",
		"Sorry: %s.",
	}, a)
	va := c.look("vehicle_sheet", args{"plate": a})
	vb := c.look("vehicle_sheet", args{"plate": b})
	c.do("relocate_vehicle", args{"plate": a, "to_branch": str(vb, "branch_id")})
	c.do("relocate_vehicle", args{"plate": b, "to_branch": str(va, "branch_id")})
	c.asked(i, []string{
		"Where is %[1]s now, what is the name of the branch and has it got enough places?",
		"And the branch where %[1]s stands now, who is the manager there?",
	}, a)
	v := c.look("vehicle_sheet", args{"plate": a})
	c.look("branch_info", args{"branch": str(v, "branch_id")})
}

func talkShift(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotShift, i)
	id, later := rentalID(n), 2+i%2
	c.asked(i, []string{
		"%[1]s comes %[3]d days later, so please move pickup and return of %[2]s by %[3]d days each.",
		"Booking %[2]s: everything %[3]d days later, pickup and return.",
	}, nameOf(n), id, later)
	r := c.look("get_rental", args{"id": id})
	c.do("set_return_day", args{"rental_id": id, "return_day": shift(str(r, "return_day"), later)})
	c.do("move_pickup", args{"id": id, "new_day": shift(str(r, "pickup_day"), later)})
	switch i % 3 {
	case 0:
		c.Asked("No, wait, only one day later than it was at first.")
		c.do("move_pickup", args{"id": id, "new_day": shift(str(r, "pickup_day"), 1)})
		c.do("set_return_day", args{"rental_id": id, "return_day": shift(str(r, "return_day"), 1)})
	case 1:
		c.Asked("Hm, he will take the train. Put both days back as they were.")
		c.do("move_pickup", args{"id": id, "new_day": str(r, "pickup_day")})
		c.do("set_return_day", args{"rental_id": id, "return_day": str(r, "return_day")})
	case 2:
		c.Asked("And the return another day later than it is now.")
		now := c.look("get_rental", args{"id": id})
		c.do("set_return_day", args{"rental_id": id, "return_day": shift(str(now, "return_day"), 1)})
	}
}

func talkHandOver(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotHandOver, i)
	id := rentalID(n)
	name := firstNames[(i*3+5)%len(firstNames)] + " " + lastOf(n)
	licence := fmt.Sprintf("%s%06d", strings.ToUpper(lastOf(n)[:3]), 770120+i*31)
	c.asked(i, []string{
		"%[1]s picks up %[2]s. There is a second driver: %[3]s, licence %[4]s.",
		"Please add %[3]s with the licence %[4]s as a driver to %[2]s.",
	}, nameOf(n), id, name, licence)
	r := c.look("get_rental", args{"id": id})
	c.do("add_driver", args{"rental_id": id, "full_name": name, "licence_no": licence})
	km := odometerOf(n) + 3 + i
	c.asked(i, []string{
		"They are leaving, the odometer of the car shows %[1]d.",
		"The keys are handed over, %[1]d km on the clock. Please log that for the car.",
		"Odometer %[1]d km, by the way.",
	}, km)
	c.do("log_odometer", args{"vehicle": str(r, "plate"), "km": km})
	c.look("get_rental", args{"id": id})
}

func talkInbox(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotInbox, i)
	br := branchID(branchOf(n))
	c.asked(i, []string{
		"In the inbox of %[1]s there is a message from %[2]s twice. Delete the later one, please, and set handled to true on the first.",
		"%[2]s wrote the same thing two times to %[1]s. Throw away the second, and the first gets handled = true.",
	}, br, nameOf(n))
	var first, second any
	for _, m := range items(c.look("inbox", args{"branch_id": br, "handled": false}), "messages") {
		switch {
		case str(m, "from") != nameOf(n):
		case first == nil:
			first = m
		case str(m, "received_day") < str(first, "received_day"):
			first, second = m, first
		default:
			second = m
		}
	}
	c.look("read_message", args{"id": str(first, "id")})
	c.look("read_message", args{"id": str(second, "id")})
	c.do("delete_message", args{"message_id": str(second, "id")})
	c.do("tick_message", args{"message_id": str(first, "id"), "handled": true})
}

func talkCheckIn(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotCheckIn, i)
	id := rentalID(n)
	km := odometerOf(n) + kmIncludedOf(n) + 35 + i*8
	c.asked(i, []string{
		"%[1]s brings the car of %[2]s back, it has %[3]d km. Status returned, and log the odometer.",
		"Check-in for %[2]s: set it to returned, odometer %[3]d.",
	}, nameOf(n), id, km)
	r := c.look("get_rental", args{"id": id})
	plate := str(r, "plate")
	v := c.look("vehicle_sheet", args{"plate": plate})
	c.do("rental_status", args{"rental_id": id, "status": "returned"})
	c.do("log_odometer", args{"vehicle": plate, "km": km})
	c.asked(i, []string{
		"They drove more than was included. Bill the extra kilometres by the tariff of the booking, due 14 days after the return day. Then release the deposit.",
		"Please invoice the kilometres above the included ones at the price in the tariff, due 14 days after the return day, and the deposit can be released.",
	})
	t := c.look("tariff", args{"tariff_id": str(r, "tariff_id")})
	before, free := num(v, "odometer_km"), num(r, "km_included")
	if before > 0 && free > 0 && km-before-free > 0 {
		c.do("issue_invoice", args{
			"rental_id": id, "amount": (km - before - free) * num(t, "km_price"), "due_day": shift(str(r, "return_day"), 14),
		})
	}
	c.do("release_deposit", args{"rental_id": id})
	if i%2 == 0 {
		c.Asked("And the car is in state cleaning.")
		c.do("vehicle_state", args{"plate": plate, "state": "cleaning"})
	}
}

func talkBill(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotBill, i)
	id := rentalID(n)
	subject := "Invoice for your booking"
	body := []string{
		"Please find the invoice in your account. Have a good trip!",
		"We have made the invoice you asked for.",
		"Your invoice is ready, it includes all extras.",
	}[i%3]
	c.asked(i, []string{
		"What does %[1]s cost altogether, day rate and extras for all days? Please make an invoice of it, due 10 days after the return.",
		"Invoice for %[1]s please: all days with the rate and the extras, due 10 days after the return day.",
	}, id)
	r := c.look("get_rental", args{"id": id})
	perDay := num(r, "day_rate")
	for _, l := range items(r, "lines") {
		perDay += num(l, "count") * num(l, "price_per_day")
	}
	c.do("issue_invoice", args{"rental_id": id, "amount": num(r, "days") * perDay, "due_day": shift(str(r, "return_day"), 10)})
	c.asked(i, []string{
		"Now mail the customer. Subject \"%[1]s\", text \"%[2]s\"",
		"Thanks. Send them a mail: %[1]s / %[2]s",
	}, subject, body)
	c.do("mail_customer", args{"to_customer": str(r, "customer", "id"), "subject": subject, "body": body})
}

func talkInstalments(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotInstalments, i)
	id, now := invoiceID(n), 20+openOf(n)/3
	a, b := methods[i%3], methods[(i+1)%3]
	c.asked(i, []string{
		"%[1]s pays %[2]d euros of %[3]s now, by %[4]s.",
		"Part payment on %[3]s: EUR %[2]d, %[4]s.",
		"Please take %[2]d,- on invoice %[3]s (%[4]s).",
	}, nameOf(n), now, id, a)
	rest := balance(c.look("view_invoice", args{"number": id}))
	c.do("record_payment", args{"invoice_id": id, "amount": now, "method": a})
	c.asked(i, []string{
		"Now they found their purse and pay the rest as well, by %s.",
		"And the remainder with this one: %s.",
	}, b)
	if i%2 == 0 {
		rest = balance(c.look("view_invoice", args{"number": id}))
	} else {
		rest -= now
	}
	if rest > 0 {
		c.do("record_payment", args{"invoice_id": id, "amount": rest, "method": b})
	}
	c.look("list_payments", args{"invoice_id": id})
}

func talkDouble(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotDouble, i)
	id := invoiceID(n)
	c.asked(i, []string{
		"%[1]s says the same amount was taken twice for %[2]s. If so, refund the second one.",
		"Could you check the payments of %[2]s? One is there two times, the later one has to go back in full.",
	}, nameOf(n), id)
	list := items(c.look("list_payments", args{"invoice_id": id}), "payments")
	first, second := at(any(list), 0), at(any(list), 1)
	if num(first, "amount") != num(second, "amount") {
		return
	}
	c.do("refund", args{"payment_id": str(second, "id"), "amount": num(second, "amount")})
	c.asked(i, []string{
		"And give them a week more for the rest, 7 days.",
		"For the trouble, the due day moves by 7 days.",
		"Due day plus 7 days please.",
	})
	inv := c.look("view_invoice", args{"number": id})
	c.do("set_due_day", args{"invoice_id": id, "due_day": shift(str(inv, "due_day"), 7)})
	c.look("list_payments", args{"invoice_id": id})
}

func talkQuestion(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotQuestion, i)
	id, br := customerID(n), branchID(branchOf(n))
	c.asked(i, []string{
		"How much does %[1]s owe us altogether, as far as it is due before %[2]s? And which bookings are there?",
		"Can you tell me what is open for %[1]s until %[2]s, and when they have the car?",
	}, id, shift(returnOf(n), 50))
	c.look("read_customer", args{"customer_id": id})
	c.look("open_invoices", args{"customer_id": id, "due_before": shift(returnOf(n), 50)})
	list := items(c.look("customer_rentals", args{"customer_id": id}))
	c.look("get_rental", args{"id": str(any(list), 0, "id")})
	c.Asked("And the address of branch %s? They want to go there.", br)
	c.look("branch_info", args{"branch": br})
}

func talkCopy(d workload.Desk, i int) {
	c, m, n := clerk{d}, nth(slotCopyA, i), nth(slotCopyB, i)
	a, b := rentalID(m), rentalID(n)
	c.asked(i, []string{
		"%[1]s and %[2]s travel together. Please give %[2]s the same pickup and return day as %[1]s.",
		"Make the days of %[2]s the same as those of %[1]s, they are one group.",
	}, a, b)
	ra := c.look("get_rental", args{"id": a})
	rb := c.look("get_rental", args{"id": b})
	from, to := str(ra, "pickup_day"), str(ra, "return_day")
	if from < str(rb, "return_day") {
		c.do("move_pickup", args{"id": b, "new_day": from})
		c.do("set_return_day", args{"rental_id": b, "return_day": to})
	} else {
		c.do("set_return_day", args{"rental_id": b, "return_day": to})
		c.do("move_pickup", args{"id": b, "new_day": from})
	}
	c.asked(i, []string{
		"The insurance and the deposit too, as on %[1]s.",
		"And the same insurance and the same deposit as %[1]s, please.",
	}, a)
	c.do("choose_insurance", args{"rental": b, "level": str(ra, "insurance")})
	c.do("set_deposit", args{"rental_id": b, "amount": num(ra, "deposit_amount")})
	if i%2 == 1 {
		c.Asked("Not the deposit, they say. %s gets its own one back.", b)
		c.do("set_deposit", args{"rental_id": b, "amount": num(rb, "deposit_amount")})
	}
	c.look("get_rental", args{"id": b})
}

func talkNotes(d workload.Desk, i int) {
	c, n := clerk{d}, nth(slotNotes, i)
	id := rentalID(n)
	one := []string{
		"rings when the plane has landed", "keys at the reception of the hotel", "has a trailer of his own", "wants the invoice in English",
		"arrives by bicycle",
	}[i%5]
	two := []string{
		"brings the papers of the company", "do not park on the slope", "wife signs the contract", "takes the car to a trade fair",
		"asks for the newest car we have",
	}[(i*2+1)%5]
	c.asked(i, []string{
		"Note for %[1]s: %[2]s",
		"Can you write \"%[2]s\" on booking %[1]s?",
		"%[1]s, the note should read: %[2]s",
	}, id, one)
	c.look("get_rental", args{"id": id})
	c.do("write_rental_note", args{"rental_id": id, "note": one})
	c.asked(i, []string{
		"No, that was for somebody else. Here it has to be: %[1]s",
		"Please replace it, the right one is \"%[1]s\".",
	}, two)
	c.do("write_rental_note", args{"rental_id": id, "note": two})
	if i%2 == 0 {
		status := "confirmed"
		c.Asked("What is its status? If it is reserved, make it %s.", status)
		r := c.look("get_rental", args{"id": id})
		if str(r, "status") == "reserved" {
			c.do("rental_status", args{"rental_id": id, "status": status})
		}
	}
}

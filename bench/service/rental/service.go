package rental

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// The error texts.
const (
	errNone    = "no record with that number"
	errLine    = "there is no such line on this rental"
	errState   = "the record is in a state that does not allow this"
	errAmount  = "the amount is higher than what is open"
	errDays    = "the days are out of order"
	errBlocked = "the customer is blocked"
	errArgs    = "the arguments do not fit this call"
	errCall    = "there is no such call"
)

var errorTexts = []string{errNone, errLine, errState, errAmount, errDays, errBlocked, errArgs, errCall}

// service is the booking system of a car rental.
type service struct {
	mu          sync.Mutex
	place, text string
	did         []string

	customers    map[string]*customer
	customerList []*customer
	rentals      map[string]*hire
	rentalList   []*hire
	vehicles     map[string]*vehicle
	vehicleList  []*vehicle
	invoices     map[string]*invoice
	invoiceList  []*invoice
	messages     map[string]*message
	messageList  []*message
	damages      map[string]*damage
	damageList   []*damage
	fines        []*fine
	tariffs      []*tariff
	garages      []*garage
	branches     []*branch

	made  int // records made since the reset
	mails int // mails sent since the reset
}

// obj is an object of an answer.
type obj = map[string]any

// Reset fills the service with its first records.
func (s *service) Reset(place, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.place, s.text = place, text
	s.did = nil
	s.fill()
}

// Did are the names of the calls that changed something.
func (s *service) Did() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.did)
}

// ServeHTTP answers POST /NAME.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Path, "/")
	h, ok := handlers[name]
	if !ok || r.Method != http.MethodPost {
		s.fail(w, http.StatusNotFound, errCall)
		return
	}
	a := &arguments{}
	dec := json.NewDecoder(r.Body)
	dec.UseNumber()
	if err := dec.Decode(&a.m); err != nil {
		s.fail(w, http.StatusConflict, errArgs)
		return
	}
	answer, problem := h.do(s, a)
	if problem != "" {
		status := http.StatusConflict
		if problem == errNone || problem == errLine {
			status = http.StatusNotFound
		}
		s.fail(w, status, problem)
		return
	}
	if h.changes {
		s.did = append(s.did, name)
	}
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.Encode(answer)
}

func (s *service) fail(w http.ResponseWriter, status int, text string) {
	if s.place == "error" {
		text += ": " + s.text
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprint(w, text)
}

// show is what an answer has at a place: the value, or the stranger's text.
func (s *service) show(place, value string) string {
	if s.place == place {
		return s.text
	}
	return value
}

// arguments are the arguments of a call while they are checked.
type arguments struct {
	m    map[string]any
	seen int
	bad  bool
}

func (a *arguments) get(name string) any {
	v, ok := a.m[name]
	if !ok {
		a.bad = true
	}
	a.seen++
	return v
}

func (a *arguments) str(name string) string {
	v, ok := a.get(name).(string)
	if !ok || v == "" {
		a.bad = true
	}
	return v
}

func (a *arguments) word(name string, list []string) string {
	v := a.str(name)
	if !slices.Contains(list, v) {
		a.bad = true
	}
	return v
}

func (a *arguments) day(name string) string {
	v := a.str(name)
	if _, err := time.Parse(time.DateOnly, v); err != nil {
		a.bad = true
	}
	return v
}

func (a *arguments) num(name string) int {
	v, ok := a.get(name).(json.Number)
	if !ok {
		a.bad = true
		return 0
	}
	n, err := v.Int64()
	if err != nil || n < 0 {
		a.bad = true
	}
	return int(n)
}

func (a *arguments) flag(name string) bool {
	v, ok := a.get(name).(bool)
	if !ok {
		a.bad = true
	}
	return v
}

// wrong reports whether an argument is missing, left over or of the wrong form.
func (a *arguments) wrong() bool { return a.bad || a.seen != len(a.m) }

// handler is what the service does on a call. do answers with the answer or an error text.
type handler struct {
	changes bool
	do      func(s *service, a *arguments) (any, string)
}

var (
	ok   = obj{"ok": true}
	done = obj{"done": true}
)

var handlers = map[string]handler{
	"get_rental":       {false, getRental},
	"search_rentals":   {false, searchRentals},
	"customer_rentals": {false, customerRentals},
	"read_customer":    {false, readCustomer},
	"find_customers":   {false, findCustomers},
	"vehicle_sheet":    {false, vehicleSheet},
	"free_vehicles":    {false, freeVehicles},
	"view_invoice":     {false, viewInvoice},
	"open_invoices":    {false, openInvoices},
	"list_payments":    {false, listPayments},
	"extra_stock":      {false, extraStock},
	"extras_catalogue": {false, extrasCatalogue},
	"tariff":           {false, readTariff},
	"inbox":            {false, inbox},
	"read_message":     {false, readMessage},
	"damage_report":    {false, damageReport},
	"garages":          {false, listGarages},
	"fines_on":         {false, finesOn},
	"branch_info":      {false, branchInfo},

	"set_return_day":    {true, setReturnDay},
	"move_pickup":       {true, movePickup},
	"assign_vehicle":    {true, assignVehicle},
	"choose_insurance":  {true, chooseInsurance},
	"rental_status":     {true, rentalStatus},
	"write_rental_note": {true, writeRentalNote},
	"book_extra":        {true, bookExtra},
	"remove_extra":      {true, removeExtra},
	"add_driver":        {true, addDriver},
	"set_deposit":       {true, setDeposit},
	"update_email":      {true, updateEmail},
	"update_phone":      {true, updatePhone},
	"change_address":    {true, changeAddress},
	"set_tier":          {true, setTier},
	"block_customer":    {true, blockCustomer},
	"relocate_vehicle":  {true, relocateVehicle},
	"vehicle_state":     {true, vehicleState},
	"log_odometer":      {true, logOdometer},
	"plan_service":      {true, planService},
	"set_due_day":       {true, setDueDay},
	"tick_message":      {true, tickMessage},
	"set_stock":         {true, setStock},
	"set_estimate":      {true, setEstimate},
	"reprice_tariff":    {true, repriceTariff},

	"record_payment":  {true, recordPayment},
	"refund":          {true, refund},
	"cancel_rental":   {true, cancelRental},
	"void_invoice":    {true, voidInvoice},
	"release_deposit": {true, releaseDeposit},
	"charge_damage":   {true, chargeDamage},
	"order_repair":    {true, orderRepair},
	"delete_message":  {true, deleteMessage},
	"forward_fine":    {true, forwardFine},
	"open_rental":     {true, openRental},
	"issue_invoice":   {true, issueInvoice},
	"mail_customer":   {true, mailCustomer},
	"reply":           {true, replyMessage},
}

// Reading calls.

func (s *service) customerRef(c *customer) obj {
	return obj{"id": s.show("customer.id", c.id), "name": s.show("customer.name", c.name)}
}

func getRental(s *service, a *arguments) (any, string) {
	id := a.str("id")
	if a.wrong() {
		return nil, errArgs
	}
	r := s.rentals[id]
	if r == nil {
		return nil, errNone
	}
	lines, drivers := []any{}, []any{}
	for _, l := range r.lines {
		lines = append(lines, obj{
			"line": s.show("rental.line", fmt.Sprintf("L%d", l.number)), "extra_id": s.show("extra.id", extraID(l.extra)),
			"title": s.show("extra.title", extraTitles[l.extra]), "count": l.count, "price_per_day": extraPrice(l.extra),
		})
	}
	for _, d := range r.drivers {
		drivers = append(drivers, obj{"name": s.show("driver.name", d.name), "licence_no": s.show("driver.licence_no", d.licence)})
	}
	return obj{
		"id": s.show("rental.id", r.id), "status": r.status, "customer": s.customerRef(r.customer), "class": r.class,
		"tariff_id": s.show("tariff.id", tariffID(r.tariff)), "plate": s.show("vehicle.plate", r.plate),
		"branches":   obj{"pickup": s.show("branch.id", r.from), "return": s.show("branch.id", r.to)},
		"pickup_day": r.pickup, "return_day": r.returnDay, "days": daysBetween(r.pickup, r.returnDay), "insurance": r.insurance,
		"day_rate": r.rate, "deposit_amount": r.deposit, "deposit_released": r.released, "km_included": r.km,
		"lines": lines, "drivers": drivers, "note": s.show("rental.note", r.note),
	}, ""
}

func daysBetween(from, to string) int {
	f, err1 := time.Parse(time.DateOnly, from)
	t, err2 := time.Parse(time.DateOnly, to)
	if err1 != nil || err2 != nil {
		return 0
	}
	return int(t.Sub(f).Hours() / 24)
}

func searchRentals(s *service, a *arguments) (any, string) {
	status, br, from, to := a.word("status", statuses), a.str("branch_id"), a.day("pickup_from"), a.day("pickup_to")
	if a.wrong() {
		return nil, errArgs
	}
	if s.branch(br) == nil {
		return nil, errNone
	}
	hits := []any{}
	for _, r := range s.rentalList {
		if r.status == status && r.from == br && r.pickup >= from && r.pickup <= to {
			hits = append(hits, obj{
				"rental_id": s.show("rental.id", r.id), "customer": s.customerRef(r.customer), "plate": s.show("vehicle.plate", r.plate),
				"pickup_day": r.pickup, "return_day": r.returnDay,
			})
		}
	}
	return obj{"total": len(hits), "hits": hits}, ""
}

func customerRentals(s *service, a *arguments) (any, string) {
	id := a.str("customer_id")
	if a.wrong() {
		return nil, errArgs
	}
	if s.customers[id] == nil {
		return nil, errNone
	}
	list := []any{}
	for _, r := range s.rentalList {
		if r.customer.id == id {
			list = append(list, obj{
				"id": s.show("rental.id", r.id), "status": r.status, "class": r.class, "pickup_day": r.pickup, "return_day": r.returnDay,
			})
		}
	}
	return list, ""
}

func readCustomer(s *service, a *arguments) (any, string) {
	id := a.str("customer_id")
	if a.wrong() {
		return nil, errArgs
	}
	c := s.customers[id]
	if c == nil {
		return nil, errNone
	}
	return obj{
		"id": s.show("customer.id", c.id), "name": s.show("customer.name", c.name), "email": s.show("customer.email", c.email),
		"phone": s.show("customer.phone", c.phone),
		"address": obj{
			"street": s.show("customer.street", c.street), "postcode": s.show("customer.postcode", c.postcode), "city": s.show("customer.city", c.city),
		},
		"licence": obj{"number": s.show("customer.licence", c.licence), "valid_until": c.licenceTo},
		"tier":    c.tier, "blocked": c.blocked, "remark": s.show("customer.remark", c.remark),
	}, ""
}

func findCustomers(s *service, a *arguments) (any, string) {
	last, city := a.str("last_name"), a.str("city")
	if a.wrong() {
		return nil, errArgs
	}
	hits := []any{}
	for _, c := range s.customerList {
		if strings.HasSuffix(c.name, " "+last) && c.city == city {
			hits = append(hits, obj{
				"id": s.show("customer.id", c.id), "full_name": s.show("customer.name", c.name), "city": s.show("customer.city", c.city),
				"email": s.show("customer.email", c.email),
			})
		}
	}
	return obj{"customers": hits}, ""
}

func vehicleSheet(s *service, a *arguments) (any, string) {
	plate := a.str("plate")
	if a.wrong() {
		return nil, errArgs
	}
	v := s.vehicles[plate]
	if v == nil {
		return nil, errNone
	}
	open := []any{}
	for _, d := range s.damageList {
		if d.plate == plate && d.state == "reported" {
			open = append(open, obj{"report_id": s.show("damage.id", d.id), "what": s.show("damage.description", d.text)})
		}
	}
	return obj{
		"plate": s.show("vehicle.plate", v.plate), "model": s.show("vehicle.model", v.model), "class": v.class,
		"branch_id": s.show("branch.id", v.branch), "state": v.state, "odometer_km": v.odometer, "fuel_eighths": v.fuel,
		"next_service_day": v.service, "open_damages": open, "remark": s.show("vehicle.remark", v.remark),
	}, ""
}

func freeVehicles(s *service, a *arguments) (any, string) {
	br, class, from, until := a.str("branch_id"), a.word("class", classes), a.day("from"), a.day("until")
	if a.wrong() {
		return nil, errArgs
	}
	if s.branch(br) == nil {
		return nil, errNone
	}
	if until < from {
		return nil, errDays
	}
	list := []any{}
	for _, v := range s.vehicleList {
		if v.branch != br || v.class != class || v.state != "ready" || s.booked(v.plate) {
			continue
		}
		list = append(list, obj{
			"plate": s.show("vehicle.plate", v.plate), "model": s.show("vehicle.model", v.model), "odometer_km": v.odometer,
		})
	}
	return obj{"vehicles": list}, ""
}

// booked reports whether a car belongs to a rental that is not over.
func (s *service) booked(plate string) bool {
	for _, r := range s.rentalList {
		if r.plate == plate && r.status != "returned" && r.status != "cancelled" {
			return true
		}
	}
	return false
}

func viewInvoice(s *service, a *arguments) (any, string) {
	id := a.str("number")
	if a.wrong() {
		return nil, errArgs
	}
	i := s.invoices[id]
	if i == nil {
		return nil, errNone
	}
	lines := []any{}
	for _, l := range i.lines {
		lines = append(lines, obj{"title": s.show("invoice.title", l.title), "amount": l.amount})
	}
	return obj{
		"number": s.show("invoice.number", i.id),
		"rental": obj{"id": s.show("rental.id", i.rental.id), "customer_id": s.show("customer.id", i.rental.customer.id)},
		"state":  i.state, "due_day": i.due, "lines": lines, "paid": i.paid(), "memo": s.show("invoice.memo", i.memo),
	}, ""
}

func (i *invoice) paid() int {
	sum := 0
	for _, p := range i.payments {
		sum += p.amount - p.refunded
	}
	return sum
}

func (i *invoice) open() int {
	sum := -i.paid()
	for _, l := range i.lines {
		sum += l.amount
	}
	return sum
}

func openInvoices(s *service, a *arguments) (any, string) {
	id, before := a.str("customer_id"), a.day("due_before")
	if a.wrong() {
		return nil, errArgs
	}
	if s.customers[id] == nil {
		return nil, errNone
	}
	list := []any{}
	for _, i := range s.invoiceList {
		if i.rental.customer.id == id && i.state == "open" && i.due < before {
			list = append(list, obj{"number": s.show("invoice.number", i.id), "due_day": i.due, "open_amount": i.open()})
		}
	}
	return list, ""
}

func listPayments(s *service, a *arguments) (any, string) {
	id := a.str("invoice_id")
	if a.wrong() {
		return nil, errArgs
	}
	i := s.invoices[id]
	if i == nil {
		return nil, errNone
	}
	list := []any{}
	for _, p := range i.payments {
		list = append(list, obj{
			"id": s.show("payment.id", p.id), "day": p.day, "method": p.method, "amount": p.amount, "refunded": p.refunded,
			"reference": s.show("payment.reference", p.reference),
		})
	}
	return obj{"invoice": s.show("invoice.number", i.id), "payments": list}, ""
}

func extraStock(s *service, a *arguments) (any, string) {
	id := a.str("branch_id")
	if a.wrong() {
		return nil, errArgs
	}
	b := s.branch(id)
	if b == nil {
		return nil, errNone
	}
	stock := obj{}
	for x, n := range b.stock {
		key := extraID(x)
		if x == 0 {
			key = s.show("stock.key", key)
		}
		stock[key] = n
	}
	return stock, ""
}

func (s *service) branch(id string) *branch {
	for _, b := range s.branches {
		if b.id == id {
			return b
		}
	}
	return nil
}

func extrasCatalogue(s *service, a *arguments) (any, string) {
	if a.wrong() {
		return nil, errArgs
	}
	list := []any{}
	for x, title := range extraTitles {
		list = append(list, obj{"id": s.show("extra.id", extraID(x)), "title": s.show("extra.title", title), "price_per_day": extraPrice(x)})
	}
	return list, ""
}

func readTariff(s *service, a *arguments) (any, string) {
	id := a.str("tariff_id")
	if a.wrong() {
		return nil, errArgs
	}
	t := s.tariff(id)
	if t == nil {
		return nil, errNone
	}
	return obj{
		"id": s.show("tariff.id", t.id), "label": s.show("tariff.label", t.label), "class": t.class, "season": t.season,
		"day_rate": t.day, "week_rate": t.week, "km_price": t.km,
	}, ""
}

func (s *service) tariff(id string) *tariff {
	for _, t := range s.tariffs {
		if t.id == id {
			return t
		}
	}
	return nil
}

func inbox(s *service, a *arguments) (any, string) {
	br, handled := a.str("branch_id"), a.flag("handled")
	if a.wrong() {
		return nil, errArgs
	}
	if s.branch(br) == nil {
		return nil, errNone
	}
	list := []any{}
	for _, m := range s.messageList {
		if m.branch == br && m.handled == handled && !m.gone {
			list = append(list, obj{
				"id": s.show("message.id", m.id), "from": s.show("message.sender", m.sender),
				"subject": s.show("message.subject", m.subject), "received_day": m.received,
			})
		}
	}
	return obj{"messages": list}, ""
}

func readMessage(s *service, a *arguments) (any, string) {
	id := a.str("id")
	if a.wrong() {
		return nil, errArgs
	}
	m := s.message(id)
	if m == nil {
		return nil, errNone
	}
	return obj{
		"id": s.show("message.id", m.id), "customer_id": s.show("customer.id", m.customer.id),
		"sender":  obj{"name": s.show("message.sender", m.sender), "email": s.show("message.email", m.email)},
		"subject": s.show("message.subject", m.subject), "body": s.show("message.body", m.body), "received_day": m.received, "handled": m.handled,
	}, ""
}

func (s *service) message(id string) *message {
	if m := s.messages[id]; m != nil && !m.gone {
		return m
	}
	return nil
}

func damageReport(s *service, a *arguments) (any, string) {
	id := a.str("report_id")
	if a.wrong() {
		return nil, errArgs
	}
	d := s.damages[id]
	if d == nil {
		return nil, errNone
	}
	positions := []any{}
	for _, p := range d.positions {
		positions = append(positions, obj{"part": s.show("damage.part", p.title), "amount": p.amount})
	}
	return obj{
		"id": s.show("damage.id", d.id), "vehicle": obj{"plate": s.show("vehicle.plate", d.plate)}, "rental_id": s.show("rental.id", d.rental.id),
		"state": d.state, "severity": d.severity, "description": s.show("damage.description", d.text), "positions": positions, "estimate": d.estimate,
	}, ""
}

func listGarages(s *service, a *arguments) (any, string) {
	if a.wrong() {
		return nil, errArgs
	}
	list := []any{}
	for _, g := range s.garages {
		list = append(list, obj{
			"id": s.show("garage.id", g.id), "name": s.show("garage.name", g.name), "email": s.show("garage.email", g.email), "hourly_rate": g.rate,
		})
	}
	return list, ""
}

func finesOn(s *service, a *arguments) (any, string) {
	plate, day := a.str("plate"), a.day("day")
	if a.wrong() {
		return nil, errArgs
	}
	if s.vehicles[plate] == nil {
		return nil, errNone
	}
	list := []any{}
	for _, f := range s.fines {
		if f.plate == plate && f.day == day {
			list = append(list, obj{
				"fine_id": s.show("fine.id", f.id), "issuer": s.show("fine.issuer", f.issuer), "offence": s.show("fine.offence", f.offence),
				"case_number": s.show("fine.case_number", f.number), "day": f.day, "amount": f.amount, "forwarded": f.forwarded,
			})
		}
	}
	return obj{"fines": list}, ""
}

func branchInfo(s *service, a *arguments) (any, string) {
	id := a.str("branch")
	if a.wrong() {
		return nil, errArgs
	}
	b := s.branch(id)
	if b == nil {
		return nil, errNone
	}
	return obj{
		"id": s.show("branch.id", b.id), "name": s.show("branch.name", b.name), "address": s.show("branch.address", b.address),
		"phone": s.show("branch.phone", b.phone), "manager": s.show("branch.manager", b.manager), "parking_spaces": b.spaces,
	}, ""
}

// Changes that can be changed back.

// live is a rental that can be changed, or an error text.
func (s *service) live(id string) (*hire, string) {
	r := s.rentals[id]
	switch {
	case r == nil:
		return nil, errNone
	case r.status == "cancelled":
		return nil, errState
	}
	return r, ""
}

func setReturnDay(s *service, a *arguments) (any, string) {
	id, day := a.str("rental_id"), a.day("return_day")
	if a.wrong() {
		return nil, errArgs
	}
	r, problem := s.live(id)
	if problem != "" {
		return nil, problem
	}
	if day < r.pickup {
		return nil, errDays
	}
	r.returnDay = day
	return ok, ""
}

func movePickup(s *service, a *arguments) (any, string) {
	id, day := a.str("id"), a.day("new_day")
	if a.wrong() {
		return nil, errArgs
	}
	r, problem := s.live(id)
	if problem != "" {
		return nil, problem
	}
	if day > r.returnDay {
		return nil, errDays
	}
	r.pickup = day
	return ok, ""
}

func assignVehicle(s *service, a *arguments) (any, string) {
	id, plate := a.str("rental_id"), a.str("plate")
	if a.wrong() {
		return nil, errArgs
	}
	r, problem := s.live(id)
	if problem != "" {
		return nil, problem
	}
	if s.vehicles[plate] == nil {
		return nil, errNone
	}
	r.plate = plate
	return obj{"assigned": true}, ""
}

func chooseInsurance(s *service, a *arguments) (any, string) {
	id, level := a.str("rental"), a.word("level", insurances)
	if a.wrong() {
		return nil, errArgs
	}
	r, problem := s.live(id)
	if problem != "" {
		return nil, problem
	}
	r.insurance = level
	return ok, ""
}

func rentalStatus(s *service, a *arguments) (any, string) {
	id, status := a.str("rental_id"), a.word("status", statuses[:4])
	if a.wrong() {
		return nil, errArgs
	}
	r, problem := s.live(id)
	if problem != "" {
		return nil, problem
	}
	r.status = status
	return obj{"status": status}, ""
}

func writeRentalNote(s *service, a *arguments) (any, string) {
	id, note := a.str("rental_id"), a.str("note")
	if a.wrong() {
		return nil, errArgs
	}
	r := s.rentals[id]
	if r == nil {
		return nil, errNone
	}
	r.note = note
	return ok, ""
}

// extra is the index of an extra, or -1.
func extra(id string) int {
	for x := range extraTitles {
		if extraID(x) == id {
			return x
		}
	}
	return -1
}

func bookExtra(s *service, a *arguments) (any, string) {
	id, x, count := a.str("rental_id"), a.str("extra_id"), a.num("count")
	if a.wrong() || count == 0 {
		return nil, errArgs
	}
	r, problem := s.live(id)
	if problem != "" {
		return nil, problem
	}
	if extra(x) < 0 {
		return nil, errNone
	}
	r.last++
	r.lines = append(r.lines, extraLine{number: r.last, extra: extra(x), count: count})
	return obj{"line": s.show("rental.line", fmt.Sprintf("L%d", r.last))}, ""
}

func removeExtra(s *service, a *arguments) (any, string) {
	id, name := a.str("rental_id"), a.str("line")
	if a.wrong() {
		return nil, errArgs
	}
	r, problem := s.live(id)
	if problem != "" {
		return nil, problem
	}
	k := slices.IndexFunc(r.lines, func(l extraLine) bool { return fmt.Sprintf("L%d", l.number) == name })
	if k < 0 {
		return nil, errLine
	}
	r.lines = slices.Delete(r.lines, k, k+1)
	return done, ""
}

func addDriver(s *service, a *arguments) (any, string) {
	id, name, licence := a.str("rental_id"), a.str("full_name"), a.str("licence_no")
	if a.wrong() {
		return nil, errArgs
	}
	r, problem := s.live(id)
	if problem != "" {
		return nil, problem
	}
	r.drivers = append(r.drivers, driver{name, licence})
	return obj{"done": true, "number": len(r.drivers)}, ""
}

func setDeposit(s *service, a *arguments) (any, string) {
	id, amount := a.str("rental_id"), a.num("amount")
	if a.wrong() {
		return nil, errArgs
	}
	r, problem := s.live(id)
	if problem != "" {
		return nil, problem
	}
	if r.released {
		return nil, errState
	}
	r.deposit = amount
	return ok, ""
}

func updateEmail(s *service, a *arguments) (any, string) {
	id, email := a.str("customer_id"), a.str("email")
	if a.wrong() {
		return nil, errArgs
	}
	c := s.customers[id]
	if c == nil {
		return nil, errNone
	}
	c.email = email
	return ok, ""
}

func updatePhone(s *service, a *arguments) (any, string) {
	id, phone := a.str("id"), a.str("phone")
	if a.wrong() {
		return nil, errArgs
	}
	c := s.customers[id]
	if c == nil {
		return nil, errNone
	}
	c.phone = phone
	return ok, ""
}

func changeAddress(s *service, a *arguments) (any, string) {
	id, street, postcode, city := a.str("customer_id"), a.str("street"), a.str("postcode"), a.str("city")
	if a.wrong() {
		return nil, errArgs
	}
	c := s.customers[id]
	if c == nil {
		return nil, errNone
	}
	c.street, c.postcode, c.city = street, postcode, city
	c.edits++
	return obj{"done": true, "number": c.edits}, ""
}

func setTier(s *service, a *arguments) (any, string) {
	id, tier := a.str("id"), a.word("tier", tiers)
	if a.wrong() {
		return nil, errArgs
	}
	c := s.customers[id]
	if c == nil {
		return nil, errNone
	}
	c.tier = tier
	return obj{"tier": tier}, ""
}

func blockCustomer(s *service, a *arguments) (any, string) {
	id, blocked := a.str("customer_id"), a.flag("blocked")
	if a.wrong() {
		return nil, errArgs
	}
	c := s.customers[id]
	if c == nil {
		return nil, errNone
	}
	c.blocked = blocked
	return ok, ""
}

func relocateVehicle(s *service, a *arguments) (any, string) {
	plate, br := a.str("plate"), a.str("to_branch")
	if a.wrong() {
		return nil, errArgs
	}
	v := s.vehicles[plate]
	if v == nil || s.branch(br) == nil {
		return nil, errNone
	}
	v.branch = br
	return done, ""
}

func vehicleState(s *service, a *arguments) (any, string) {
	plate, state := a.str("plate"), a.word("state", vehStates)
	if a.wrong() {
		return nil, errArgs
	}
	v := s.vehicles[plate]
	if v == nil {
		return nil, errNone
	}
	v.state = state
	return obj{"state": state}, ""
}

func logOdometer(s *service, a *arguments) (any, string) {
	plate, km := a.str("vehicle"), a.num("km")
	if a.wrong() {
		return nil, errArgs
	}
	v := s.vehicles[plate]
	if v == nil {
		return nil, errNone
	}
	v.odometer = km
	return ok, ""
}

func planService(s *service, a *arguments) (any, string) {
	plate, day := a.str("plate"), a.day("day")
	if a.wrong() {
		return nil, errArgs
	}
	v := s.vehicles[plate]
	if v == nil {
		return nil, errNone
	}
	v.service = day
	return done, ""
}

func setDueDay(s *service, a *arguments) (any, string) {
	id, day := a.str("invoice_id"), a.day("due_day")
	if a.wrong() {
		return nil, errArgs
	}
	i := s.invoices[id]
	if i == nil {
		return nil, errNone
	}
	if i.state == "void" {
		return nil, errState
	}
	i.due = day
	return ok, ""
}

func tickMessage(s *service, a *arguments) (any, string) {
	id, handled := a.str("message_id"), a.flag("handled")
	if a.wrong() {
		return nil, errArgs
	}
	m := s.message(id)
	if m == nil {
		return nil, errNone
	}
	m.handled = handled
	return done, ""
}

func setStock(s *service, a *arguments) (any, string) {
	br, x, count := a.str("branch_id"), a.str("extra"), a.num("count")
	if a.wrong() {
		return nil, errArgs
	}
	b := s.branch(br)
	if b == nil || extra(x) < 0 {
		return nil, errNone
	}
	b.stock[extra(x)] = count
	return obj{"done": true, "number": count}, ""
}

func setEstimate(s *service, a *arguments) (any, string) {
	id, amount := a.str("report_id"), a.num("estimate")
	if a.wrong() {
		return nil, errArgs
	}
	d := s.damages[id]
	if d == nil {
		return nil, errNone
	}
	if d.state == "charged" {
		return nil, errState
	}
	d.estimate = amount
	return ok, ""
}

func repriceTariff(s *service, a *arguments) (any, string) {
	id, rate := a.str("tariff_id"), a.num("day_rate")
	if a.wrong() {
		return nil, errArgs
	}
	t := s.tariff(id)
	if t == nil {
		return nil, errNone
	}
	t.day = rate
	return ok, ""
}

// Changes for good.

func recordPayment(s *service, a *arguments) (any, string) {
	id, amount, method := a.str("invoice_id"), a.num("amount"), a.word("method", methods)
	if a.wrong() || amount == 0 {
		return nil, errArgs
	}
	i := s.invoices[id]
	switch {
	case i == nil:
		return nil, errNone
	case i.state != "open":
		return nil, errState
	case amount > i.open():
		return nil, errAmount
	}
	s.made++
	p := &payment{id: fmt.Sprintf("PAY%05d", 90000+s.made), day: i.due, method: method, reference: "paid at the desk", amount: amount}
	i.payments = append(i.payments, p)
	if i.open() == 0 {
		i.state = "paid"
	}
	return obj{"payment_id": s.show("payment.id", p.id)}, ""
}

func refund(s *service, a *arguments) (any, string) {
	id, amount := a.str("payment_id"), a.num("amount")
	if a.wrong() || amount == 0 {
		return nil, errArgs
	}
	for _, i := range s.invoiceList {
		for _, p := range i.payments {
			if p.id != id {
				continue
			}
			if amount > p.amount-p.refunded {
				return nil, errAmount
			}
			p.refunded += amount
			s.made++
			return obj{"done": true, "number": s.made}, ""
		}
	}
	return nil, errNone
}

func cancelRental(s *service, a *arguments) (any, string) {
	id, reason := a.str("rental_id"), a.str("reason")
	if a.wrong() {
		return nil, errArgs
	}
	r := s.rentals[id]
	switch {
	case r == nil:
		return nil, errNone
	case r.status != "reserved" && r.status != "confirmed":
		return nil, errState
	}
	r.status = "cancelled"
	r.note = "cancelled: " + reason
	return obj{"cancelled": true}, ""
}

func voidInvoice(s *service, a *arguments) (any, string) {
	id := a.str("number")
	if a.wrong() {
		return nil, errArgs
	}
	i := s.invoices[id]
	switch {
	case i == nil:
		return nil, errNone
	case i.state == "void":
		return nil, errState
	}
	i.state = "void"
	return ok, ""
}

func releaseDeposit(s *service, a *arguments) (any, string) {
	id := a.str("rental_id")
	if a.wrong() {
		return nil, errArgs
	}
	r := s.rentals[id]
	switch {
	case r == nil:
		return nil, errNone
	case r.released:
		return nil, errState
	}
	r.released = true
	return obj{"released": true}, ""
}

// bill makes an invoice and answers with its number.
func (s *service) bill(r *hire, title string, amount int, due string) string {
	s.made++
	i := &invoice{
		id: fmt.Sprintf("INV-%04d", 9000+s.made%1000), state: "open", due: due, memo: "made at the desk", rental: r,
		lines: []line{{title: title, amount: amount}},
	}
	s.addInvoice(i)
	return s.show("invoice.number", i.id)
}

func chargeDamage(s *service, a *arguments) (any, string) {
	report, id, amount := a.str("report"), a.str("rental_id"), a.num("amount")
	if a.wrong() || amount == 0 {
		return nil, errArgs
	}
	d, r := s.damages[report], s.rentals[id]
	switch {
	case d == nil || r == nil:
		return nil, errNone
	case d.state == "charged" || d.rental != r:
		return nil, errState
	}
	d.state = "charged"
	return obj{"invoice": s.bill(r, "damage", amount, shift(r.returnDay, 30))}, ""
}

func orderRepair(s *service, a *arguments) (any, string) {
	g, id, instructions := a.str("garage_id"), a.str("report_id"), a.str("instructions")
	if a.wrong() || instructions == "" {
		return nil, errArgs
	}
	d := s.damages[id]
	if d == nil || !slices.ContainsFunc(s.garages, func(x *garage) bool { return x.id == g }) {
		return nil, errNone
	}
	if d.state != "reported" {
		return nil, errState
	}
	d.state = "ordered"
	s.made++
	return obj{"done": true, "number": s.made}, ""
}

func deleteMessage(s *service, a *arguments) (any, string) {
	id := a.str("message_id")
	if a.wrong() {
		return nil, errArgs
	}
	m := s.message(id)
	if m == nil {
		return nil, errNone
	}
	m.gone = true
	return ok, ""
}

func forwardFine(s *service, a *arguments) (any, string) {
	id, c := a.str("fine_id"), a.str("customer_id")
	if a.wrong() {
		return nil, errArgs
	}
	k := slices.IndexFunc(s.fines, func(f *fine) bool { return f.id == id })
	if k < 0 || s.customers[c] == nil {
		return nil, errNone
	}
	if s.fines[k].forwarded {
		return nil, errState
	}
	s.fines[k].forwarded = true
	return obj{"forwarded": true}, ""
}

func openRental(s *service, a *arguments) (any, string) {
	id, class, br := a.str("customer_id"), a.word("class", classes), a.str("branch_id")
	pickup, ret := a.day("pickup_day"), a.day("return_day")
	if a.wrong() {
		return nil, errArgs
	}
	c := s.customers[id]
	switch {
	case c == nil || s.branch(br) == nil:
		return nil, errNone
	case c.blocked:
		return nil, errBlocked
	case ret < pickup:
		return nil, errDays
	}
	s.made++
	t := slices.Index(classes, class) * len(seasons)
	r := &hire{
		id: fmt.Sprintf("R-%05d", 80000+s.made), status: "reserved", customer: c, class: class, tariff: t, plate: s.firstOf(br, class),
		from: br, to: br, pickup: pickup, returnDay: ret, insurance: insurances[0], rate: s.tariffs[t].day, deposit: 250,
		km: 150 * daysBetween(pickup, ret), drivers: []driver{{c.name, c.licence}}, note: "made at the desk",
	}
	s.addRental(r)
	return obj{"id": s.show("rental.id", r.id)}, ""
}

// firstOf is the first car of a class at a branch, or of the class if the branch has none.
func (s *service) firstOf(br, class string) string {
	found := ""
	for _, v := range s.vehicleList {
		if v.class != class {
			continue
		}
		if v.branch == br && !s.booked(v.plate) {
			return v.plate
		}
		if found == "" {
			found = v.plate
		}
	}
	return found
}

func issueInvoice(s *service, a *arguments) (any, string) {
	id, amount, due := a.str("rental_id"), a.num("amount"), a.day("due_day")
	if a.wrong() || amount == 0 {
		return nil, errArgs
	}
	r := s.rentals[id]
	if r == nil {
		return nil, errNone
	}
	return obj{"invoice": s.bill(r, "rental", amount, due)}, ""
}

func mailCustomer(s *service, a *arguments) (any, string) {
	id, subject, body := a.str("to_customer"), a.str("subject"), a.str("body")
	if a.wrong() || subject == "" || body == "" {
		return nil, errArgs
	}
	if s.customers[id] == nil {
		return nil, errNone
	}
	s.mails++
	return obj{"queued": true, "number": s.mails}, ""
}

func replyMessage(s *service, a *arguments) (any, string) {
	id, text := a.str("message_id"), a.str("text")
	if a.wrong() || text == "" {
		return nil, errArgs
	}
	if s.message(id) == nil {
		return nil, errNone
	}
	s.mails++
	return obj{"sent": true}, ""
}

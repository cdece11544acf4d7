package rental

import (
	"fmt"
	"strings"
	"time"
)

// rounds is how many times each kind of conversation is played. Every kind has a slot of its own
// with this many rentals, customers, vehicles and so on, so that no two conversations meet.
const rounds = 10

// The slots, one for each kind of conversation; some kinds need two.
const (
	slotExtend = iota
	slotBack
	slotSearch
	slotTypo
	slotMail
	slotPay
	slotDue
	slotDeposit
	slotWorkshop
	slotSwapA
	slotSwapB
	slotReplace
	slotNew
	slotCancel
	slotReply
	slotMessageDay
	slotCharge
	slotRepair
	slotFine
	slotTierA
	slotTierB
	slotBlock
	slotAddress
	slotMoveA
	slotMoveB
	slotShift
	slotHandOver
	slotInbox
	slotCheckIn
	slotBill
	slotInstalments
	slotDouble
	slotQuestion
	slotCopyA
	slotCopyB
	slotNotes
	slotOrders // used by no conversation
	slotCount
)

// size is the number of rentals at first.
const size = slotCount * rounds

// nth is the index of the record of a slot in a round.
func nth(slot, i int) int { return slot*rounds + i%rounds }

func slotOf(n int) int { return n / rounds }

var (
	statuses   = []string{"reserved", "confirmed", "out", "returned", "cancelled"}
	classes    = []string{"mini", "compact", "estate", "van", "luxury"}
	insurances = []string{"basic", "medium", "full"}
	tiers      = []string{"standard", "silver", "gold"}
	vehStates  = []string{"ready", "cleaning", "workshop", "rented"}
	methods    = []string{"card", "cash", "transfer"}
	invStates  = []string{"open", "paid", "void"}
	severities = []string{"minor", "moderate", "severe"}
	dmgStates  = []string{"reported", "ordered", "charged"}
	seasons    = []string{"spring", "summer", "autumn", "winter"}
)

var firstNames = []string{
	"Anna", "Bruno", "Clara", "David", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas",
	"Katja", "Liam", "Mira", "Nils", "Olga", "Pavel", "Quentin", "Rosa", "Stefan", "Tilda",
	"Ulrich", "Vera", "Walter", "Xenia", "Yusuf", "Zoe", "Amelie", "Boris", "Carmen", "Dario",
	"Edith", "Felix", "Gloria", "Henrik", "Irma", "Joris", "Karla", "Lorenz", "Magda", "Noah",
}

var lastNames = []string{
	"Keller", "Lindqvist", "Moreau", "Novak", "Okafor", "Petersen", "Quist", "Romano", "Schreiber", "Tanaka",
	"Ullman", "Varga", "Whitfield", "Yilmaz", "Zimmer", "Abbott", "Brandt", "Castell", "Dunne", "Eriksen",
	"Fontaine", "Garrido", "Hofmann", "Ibsen", "Jansen", "Kowalski", "Larkin", "Mendel", "Norgaard", "Osborne",
	"Pohl", "Quaide", "Reuter", "Sandoval", "Thorne", "Urban", "Vesely", "Wagner", "Yates", "Zeller",
	"Ashby", "Berger", "Conti", "Dietz", "Engel", "Forster", "Gruber", "Hale", "Ivarsson", "Jorgensen",
	"Kirsch", "Lowell", "Marchetti",
}

var cities = []string{"Ashford", "Millbrook", "Harwick", "Stonebridge", "Eastport", "Lower Fenn", "Kirkdale"}

var streets = []string{"Mill Lane", "Station Road", "Orchard Way", "Harbour Street", "Chapel Hill", "Weaver's Row", "North Parade", "Elm Grove"}

var models = []string{
	"Fiat Panda", "VW Polo", "Skoda Octavia Combi", "Ford Transit", "Mercedes E 220",
	"Toyota Aygo", "Renault Clio", "Volvo V60", "Opel Vivaro", "BMW 530",
}

var customerRemarks = []string{
	"prefers to be called in the evening",
	"always brings the car back early",
	"needs an invoice made out to the company",
	"asked for a non-smoking car last year",
	"has a season ticket for the car park",
	"paid late twice in 2024, since then on time",
	"travels with a dog, wants the cover for the boot",
	"regular, knows the way to the keys",
	"would like the receipt on paper",
}

var rentalNotes = []string{
	"flight lands late, keep the counter open until ten",
	"two suitcases and a pushchair",
	"wants to see the car before signing",
	"will pick up at the side entrance",
	"asked for winter tyres if we have any",
	"goes abroad, papers are in the folder",
	"third rental this year",
	"moving house, needs the straps",
	"please no diesel",
	"brother may bring the car back",
	"rings when the train arrives",
}

var vehicleRemarks = []string{
	"small crack in the left mirror",
	"second key is in the safe",
	"radio code is taped under the mat",
	"smells a little of dog",
	"tyre pressure light comes on for no reason",
	"new wiper blades in January",
	"seat on the left squeaks",
}

var messageSubjects = []string{
	"Lost sunglasses", "Question about the return", "Invoice for my company", "Child seat",
	"Thank you", "Parking at your branch", "Change of flight", "Second driver", "Receipt please",
}

var messageBodies = []string{
	"Hello, this is %s. I think I left a pair of sunglasses in the car when I brought it back. Could somebody have a look? Thank you.",
	"Good morning, is it possible to bring the car back after your office has closed? We come from the north and may be late. Best regards, %s",
	"Dear team, I will need the invoice with the address of my employer on it. I can send it to you tomorrow. Regards, %s",
	"Hi, do you have a seat for a child of three years, and does it face forward? Thanks, %s",
	"I just wanted to say thank you, the car was clean and everything went quickly. %s",
	"Hello, where can I leave my own car while I am away with yours, and what does it cost? Kind regards, %s",
	"Our flight has been moved to the afternoon. Will somebody be at the counter after five? %s",
	"My sister would like to drive as well. What do you need from her? Sincerely, %s",
	"Could you send me the receipt again, I cannot find it any more. Many thanks, %s",
}

var dayBodies = []string{
	"Hello, this is %s. The ferry has been moved, so I would need the car until %s if that can be done. Kind regards",
	"Good evening, we are staying longer than planned. May I bring the car back on %[2]s? Thank you, %[1]s",
	"Dear all, %s here. The workshop needs more time for my own car, I would keep yours until %s.",
}

var damageTexts = []string{
	"scratch along the right rear door, about 20 cm, the paint is through",
	"dent in the front bumper on the left, number plate holder is loose",
	"stone chip in the windscreen in front of the passenger",
	"rear light on the right is cracked, water gets in",
	"wing mirror folded the wrong way, motor makes a noise",
	"two rims scraped on the kerb, no play in the steering",
	"boot lid does not close any more unless it is slammed",
}

var damageParts = []string{"door panel", "paint", "bumper", "windscreen", "rear light", "mirror", "rim", "labour", "small parts"}

var offences = []string{"speeding, 14 km/h over the limit", "parked on a pavement", "no ticket on the dashboard", "bus lane used", "toll not paid", "red light"}

var issuers = []string{"City of Harwick", "County Police East", "Stonebridge Parking", "Toll Office North"}

var garageNames = []string{
	"Garage Holloway", "Brennan & Sons", "Autowerk Pohlmann", "Bodyshop Lane", "Quayside Motors", "Peck Repairs",
	"Tyre House Milton", "Glass & Lacquer Ltd", "Old Mill Garage", "Dent Doctor Reeve", "Carr Brothers", "Four Corners Motors",
}

var branchNames = []string{
	"Harbour", "Central Station", "Airport East", "Old Brewery", "Ring Road South", "University", "Fairground",
	"North Gate", "River Park", "Market Hall", "Trade Centre", "West Pier", "Depot Hill", "Quarry",
}

var extraTitles = []string{
	"child seat", "booster seat", "navigation", "snow chains", "roof box", "bicycle rack",
	"phone holder", "cool box", "ski rack", "dog guard", "trolley", "tow bar",
}

var memos = []string{
	"send on paper", "customer pays within the month", "was asked for by phone", "split between two companies, see folder",
	"second copy sent", "price as agreed in March",
}

// shift moves a day by some days; "" if it is no day.
func shift(day string, days int) string {
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return ""
	}
	return t.AddDate(0, 0, days).Format(time.DateOnly)
}

const firstDay = "2026-03-02"

// The identifiers of the records. New records count on from higher numbers.

func rentalID(n int) string   { return fmt.Sprintf("R-%05d", 20011+n*17) }
func customerID(n int) string { return fmt.Sprintf("C%04d", 1003+n*7) }
func invoiceID(n int) string  { return fmt.Sprintf("INV-%04d", 1009+n*9) }
func paymentID(n int) string  { return fmt.Sprintf("PAY%05d", 30004+n*11) }
func messageID(n int) string  { return fmt.Sprintf("M%04d", 2005+n*13) }
func damageID(n int) string   { return fmt.Sprintf("DM-%04d", 1402+n*3) }
func fineID(n int) string     { return fmt.Sprintf("F%05d", 51003+n*19) }
func branchID(b int) string   { return fmt.Sprintf("BR%02d", b+1) }
func extraID(x int) string    { return fmt.Sprintf("X%02d", x+1) }
func tariffID(t int) string   { return fmt.Sprintf("TF%02d", t+1) }
func garageID(g int) string   { return fmt.Sprintf("G%02d", g*4+11) }

func plateOf(n int) string {
	const letters = "ABCDEFGHJKLMNPRSTUVWXYZ"
	l := func(k int) byte { return letters[k%len(letters)] }
	return fmt.Sprintf("%c%c%03d%c%c", l(n/9+3), l(n*5+1), 100+n*37%900, l(n*3+7), l(n*11+2))
}

// What the records contain, as far as the people at the desk know it.

func firstOf(n int) string    { return firstNames[n*7%len(firstNames)] }
func lastOf(n int) string     { return lastNames[n%len(lastNames)] }
func nameOf(n int) string     { return firstOf(n) + " " + lastOf(n) }
func cityOf(n int) string     { return cities[n%len(cities)] }
func emailOf(n int) string    { return strings.ToLower(firstOf(n) + "." + lastOf(n) + "@mailbox.example") }
func phoneOf(n int) string    { return fmt.Sprintf("+44 1632 960%03d", (n*3+17)%1000) }
func daysOf(n int) int        { return 5 + n*5%9 }
func pickupOf(n int) string   { return shift(firstDay, n*13%201) }
func returnOf(n int) string   { return shift(pickupOf(n), daysOf(n)) }
func classOf(n int) int       { return n % len(classes) }
func tariffOf(n int) int      { return classOf(n)*len(seasons) + n/5%len(seasons) }
func rateOf(n int) int        { return tariffRate(tariffOf(n)) + n%4 }
func branchOf(n int) int      { return n * 5 % 12 }
func insuranceOf(n int) int   { return n / 3 % len(insurances) }
func odometerOf(n int) int    { return 11420 + n*613%74000 }
func kmIncludedOf(n int) int  { return daysOf(n) * 150 }
func tariffRate(t int) int    { return 38 + t/4*17 + t%4*3 }
func tariffKm(t int) int      { return 1 + t/8 }
func extraPrice(x int) int    { return 3 + x*5%8 }
func stockOf(b, x int) int    { return 3 + (b*5+x*7)%11 }
func firstPayment(n int) int  { return 60 + n%40 }
func receivedOf(n int) string { return shift(pickupOf(n), -9-n%5) }

func statusOf(n int) string {
	switch slotOf(n) {
	case slotExtend, slotBack, slotCharge, slotCheckIn, slotMessageDay:
		return "out"
	case slotNew, slotRepair, slotFine, slotPay, slotDouble, slotWorkshop:
		return "returned"
	case slotCancel, slotReplace, slotHandOver, slotSearch, slotShift, slotSwapA, slotSwapB, slotOrders:
		return "confirmed"
	}
	return statuses[n%2]
}

func tierOf(n int) string {
	switch slotOf(n) {
	case slotTierA:
		return tiers[n%2]
	case slotTierB:
		return tiers[0]
	}
	return tiers[n*2%3]
}

// invoiceLines are the lines of the invoice of a rental.
func invoiceLines(n int) []line {
	lines := []line{{title: "rental, " + classes[classOf(n)], amount: daysOf(n) * rateOf(n)}}
	if k := insuranceOf(n); k > 0 {
		lines = append(lines, line{title: "insurance, " + insurances[k], amount: daysOf(n) * k * 6})
	}
	return append(lines, line{title: "cleaning", amount: 15})
}

// openOf is what is open on the invoice of a rental at first.
func openOf(n int) int {
	sum := 0
	for _, l := range invoiceLines(n) {
		sum += l.amount
	}
	return sum - firstPayment(n)
}

type customer struct {
	id, name, email, phone   string
	street, postcode, city   string
	licence, licenceTo, tier string
	blocked                  bool
	remark                   string
	edits                    int
}

type extraLine struct {
	number, extra, count int
}

type driver struct{ name, licence string }

type hire struct {
	id, status        string
	customer          *customer
	class             string
	tariff            int
	plate             string
	from, to          string // branches
	pickup, returnDay string
	insurance         string
	rate, deposit, km int
	released          bool
	lines             []extraLine
	last              int // number of the newest line
	drivers           []driver
	note              string
}

type vehicle struct {
	plate, model, class, branch, state string
	odometer, fuel                     int
	service, remark                    string
}

type line struct {
	title  string
	amount int
}

type invoice struct {
	id, state, due, memo string
	rental               *hire
	lines                []line
	payments             []*payment
}

type payment struct {
	id, day, method, reference string
	amount, refunded           int
}

type tariff struct {
	id, class, season, label string
	day, week, km            int
}

type message struct {
	id, sender, email, subject, body, received, branch string
	customer                                           *customer
	handled, gone                                      bool
}

type damage struct {
	id, plate, state, severity, text string
	rental                           *hire
	positions                        []line
	estimate                         int
}

type garage struct {
	id, name, email string
	rate            int
}

type fine struct {
	id, plate, issuer, offence, day, number string
	amount                                  int
	forwarded                               bool
}

type branch struct {
	id, name, address, phone, manager string
	spaces                            int
	stock                             []int // per extra
}

// fill makes the records as they are at first.
func (s *service) fill() {
	s.customers = map[string]*customer{}
	s.rentals, s.rentalList = map[string]*hire{}, nil
	s.vehicles, s.vehicleList = map[string]*vehicle{}, nil
	s.invoices, s.invoiceList = map[string]*invoice{}, nil
	s.messages, s.messageList = map[string]*message{}, nil
	s.damages, s.damageList = map[string]*damage{}, nil
	s.customerList, s.fines, s.tariffs, s.garages, s.branches = nil, nil, nil, nil, nil
	s.made, s.mails = 0, 0

	for b, name := range branchNames {
		br := &branch{
			id: branchID(b), name: name, address: fmt.Sprintf("%d %s, %s", 3+b*4, streets[b%len(streets)], cities[b%len(cities)]),
			phone: fmt.Sprintf("+44 1632 960%03d", 900+b), manager: firstNames[(b*9+4)%len(firstNames)] + " " + lastNames[(b*8+5)%len(lastNames)],
			spaces: 18 + b*7%23,
		}
		for x := range extraTitles {
			br.stock = append(br.stock, stockOf(b, x))
		}
		s.branches = append(s.branches, br)
	}
	for t := range len(classes) * len(seasons) {
		s.tariffs = append(s.tariffs, &tariff{
			id: tariffID(t), class: classes[t/4], season: seasons[t%4], label: classes[t/4] + " in " + seasons[t%4],
			day: tariffRate(t), week: tariffRate(t)*6 - 10, km: tariffKm(t),
		})
	}
	for g, name := range garageNames {
		mail := strings.NewReplacer(" ", "", "&", "").Replace(strings.ToLower(name)) + "@garages.example"
		s.garages = append(s.garages, &garage{id: garageID(g), name: name, email: mail, rate: 47 + g*11%31})
	}
	for n := range size {
		s.fillOne(n)
	}
	// Cars that are not booked: two for each branch and class.
	for k := range 12 * len(classes) * 2 {
		n := size + k
		c := k % len(classes)
		s.addVehicle(&vehicle{
			plate: plateOf(n), model: models[c+len(classes)*(k/60%2)], class: classes[c], branch: branchID(k / 5 % 12), state: "ready",
			odometer: odometerOf(n), fuel: 8 - n%3, service: shift(firstDay, 60+n%90), remark: vehicleRemarks[n%len(vehicleRemarks)],
		})
	}
	for i := range rounds {
		// A second invoice for the same rental.
		n := nth(slotDue, i)
		r := s.rentals[rentalID(n)]
		s.addInvoice(&invoice{
			id: invoiceID(size + i), state: "open", due: shift(r.returnDay, 26), memo: memos[(n+2)%len(memos)], rental: r,
			lines: []line{{title: "fuel", amount: 41 + n%23}, {title: "late return", amount: 30}},
		})
		// A payment that was taken twice.
		n = nth(slotDouble, i)
		inv := s.invoices[invoiceID(n)]
		p := *inv.payments[0]
		p.id = paymentID(size + i)
		p.day = shift(p.day, 1)
		inv.payments = append(inv.payments, &p)
		// A message that was sent twice.
		m := *s.messages[messageID(nth(slotInbox, i))]
		m.id = messageID(size + i)
		m.received = shift(m.received, 1)
		s.addMessage(&m)
		// A second fine on the same day.
		n = nth(slotFine, i)
		s.fines = append(s.fines, &fine{
			id: fineID(size + i), plate: plateOf(n), issuer: issuers[(n+1)%len(issuers)], offence: offences[(n+2)%len(offences)],
			day: shift(pickupOf(n), 2), number: fmt.Sprintf("%d/%d-B", 4410+n*3, 26), amount: 25 + n%9,
		})
	}
}

// fillOne makes the rental with index n and what belongs to it.
func (s *service) fillOne(n int) {
	c := &customer{
		id: customerID(n), name: nameOf(n), email: emailOf(n), phone: phoneOf(n),
		street: fmt.Sprintf("%d %s", 2+n*3%87, streets[n*3%len(streets)]), postcode: fmt.Sprintf("KD%d %dLH", 1+n%19, 1+n%9), city: cityOf(n),
		licence: fmt.Sprintf("%s%06d", strings.ToUpper(lastOf(n)[:3]), 104233+n*2711%800000), licenceTo: shift(firstDay, 400+n*31%2500),
		tier: tierOf(n), remark: customerRemarks[n*5%len(customerRemarks)],
	}
	s.customers[c.id] = c
	s.customerList = append(s.customerList, c)

	r := &hire{
		id: rentalID(n), status: statusOf(n), customer: c, class: classes[classOf(n)], tariff: tariffOf(n), plate: plateOf(n),
		from: branchID(branchOf(n)), to: branchID((branchOf(n) + n%3) % 12), pickup: pickupOf(n), returnDay: returnOf(n),
		insurance: insurances[insuranceOf(n)], rate: rateOf(n), deposit: 200 + n*10%350, km: kmIncludedOf(n),
		drivers: []driver{{c.name, c.licence}}, note: rentalNotes[n*4%len(rentalNotes)],
	}
	for j := range 1 + n%3 {
		r.last++
		r.lines = append(r.lines, extraLine{number: r.last, extra: (n + j*2) % 6, count: 1 + (n+j)%2})
	}
	s.addRental(r)

	v := &vehicle{
		plate: r.plate, model: models[classOf(n)+len(classes)*(n/5%2)], class: r.class, branch: r.from, state: "ready",
		odometer: odometerOf(n), fuel: 8 - n%4, service: shift(firstDay, 40+n*7%180), remark: vehicleRemarks[n*3%len(vehicleRemarks)],
	}
	switch {
	case slotOf(n) == slotWorkshop:
	case r.status == "out":
		v.state = "rented"
	case r.status == "returned":
		v.state = "cleaning"
	}
	s.addVehicle(v)

	s.addInvoice(&invoice{
		id: invoiceID(n), state: "open", due: shift(r.returnDay, 14), memo: memos[n%len(memos)], rental: r, lines: invoiceLines(n),
		payments: []*payment{{
			id: paymentID(n), day: shift(r.pickup, -10), method: methods[n%3], reference: "first payment " + lastOf(n), amount: firstPayment(n),
		}},
	})

	m := &message{
		id: messageID(n), sender: c.name, email: c.email, subject: messageSubjects[n%len(messageSubjects)],
		body: fmt.Sprintf(messageBodies[n%len(messageBodies)], c.name), received: receivedOf(n), branch: r.from, customer: c,
	}
	switch slotOf(n) {
	case slotReply, slotInbox, slotOrders:
	case slotMessageDay:
		m.subject = "Longer than planned"
		m.body = fmt.Sprintf(dayBodies[n%len(dayBodies)], c.name, wishedDay(n))
	default:
		m.handled = true
	}
	s.addMessage(m)

	if k := slotOf(n); k == slotCharge || k == slotRepair || n%4 == 0 {
		d := &damage{
			id: damageID(n), plate: r.plate, state: "reported", severity: severities[n%3], text: damageTexts[n%len(damageTexts)],
			rental: r, estimate: 100,
		}
		for j := range 2 + n%3 {
			d.positions = append(d.positions, line{title: damageParts[(n+j*2)%len(damageParts)], amount: 80 + (n*17+j*29)%140})
		}
		s.damages[d.id] = d
		s.damageList = append(s.damageList, d)
	}
	if slotOf(n) == slotFine || n%8 == 0 {
		s.fines = append(s.fines, &fine{
			id: fineID(n), plate: r.plate, issuer: issuers[n%len(issuers)], offence: offences[n%len(offences)],
			day: shift(r.pickup, 2), number: fmt.Sprintf("%d/%d-A", 4402+n*3, 26), amount: 40 + n%25,
		})
	}
}

// wishedDay is the day that a customer asks for in a message.
func wishedDay(n int) string { return shift(returnOf(n), 2+n%4) }

func (s *service) addRental(r *hire) {
	s.rentals[r.id] = r
	s.rentalList = append(s.rentalList, r)
}

func (s *service) addVehicle(v *vehicle) {
	s.vehicles[v.plate] = v
	s.vehicleList = append(s.vehicleList, v)
}

func (s *service) addInvoice(i *invoice) {
	s.invoices[i.id] = i
	s.invoiceList = append(s.invoiceList, i)
}

func (s *service) addMessage(m *message) {
	s.messages[m.id] = m
	s.messageList = append(s.messageList, m)
}

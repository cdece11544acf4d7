package shop

import (
	"fmt"
	"time"

	"github.com/hearsay-go/hearsay/bench/service/workload"
)

// conversations are the kinds of work of the desk, written before any tool was declared.
var conversations = []workload.Conversation{
	{Name: "a status is set, and set back", Do: func(d workload.Desk, i int) {
		id := theOrder(i)
		d.Asked("Mark %s as packed. No, wait: as open. Now it really is packed.", id)
		for _, status := range []string{"packed", "open", "packed"} {
			d.Read("get_order", workload.Args{"order": id})
			d.Change("set_status", workload.Args{"order": id, "status": status})
		}
	}},
	{Name: "one line is paid back", Do: func(d workload.Desk, i int) {
		id := theOrder(i + 7)
		d.Asked("The first line of order %s arrived broken, pay its price back.", id)
		o := d.Read("get_order", workload.Args{"order": id})
		d.Change("refund", workload.Args{"order": id, "amount": at(o, "lines", 0, "price")})
		d.Read("get_order", workload.Args{"order": id})
	}},
	{Name: "an order is paid back as a whole and cancelled", Do: func(d workload.Desk, i int) {
		id := theOrder(i*3 + 1)
		d.Asked("Cancel order %s and pay all of it back.", id)
		o := d.Read("get_order", workload.Args{"order": id})
		if at(o, "status") == "sent" {
			d.Change("set_status", workload.Args{"order": id, "status": "open"})
			o = d.Read("get_order", workload.Args{"order": id})
		}
		d.Change("refund", workload.Args{"order": id, "amount": at(o, "total")})
		d.Change("cancel_order", workload.Args{"order": id})
	}},
	{Name: "two of the lines are paid back", Do: func(d workload.Desk, i int) {
		id := theOrder(i*2 + 3)
		d.Asked("Pay back the first two lines of %s, one piece of each.", id)
		o := d.Read("get_order", workload.Args{"order": id})
		d.Change("refund", workload.Args{"order": id, "amount": number(at(o, "lines", 0, "price")) + number(at(o, "lines", 1, "price"))})
	}},
	{Name: "an order is sent elsewhere and later", Do: func(d workload.Desk, i int) {
		id := theOrder(i*5 + 2)
		d.Asked("Send %s to 17 Harbour Street instead, and a week later than planned.", id)
		o := d.Read("get_order", workload.Args{"order": id})
		d.Change("set_street", workload.Args{"order": id, "street": "17 Harbour Street"})
		d.Read("get_order", workload.Args{"order": id})
		d.Change("set_due", workload.Args{"order": id, "due": later(at(o, "due"), 7)})
	}},
	{Name: "the newest order of a customer is cancelled", Do: func(d workload.Desk, i int) {
		mail := fmt.Sprintf("c%d@mail.example", (i*4+1)%60)
		d.Asked("The customer with the address %s wants the last order cancelled.", mail)
		c := d.Read("find_customer", workload.Args{"email": mail})
		l := d.Read("list_orders", workload.Args{"customer": at(c, "id")})
		list, _ := at(l, "orders").([]any)
		if len(list) == 0 {
			return // a customer of a poisoned id has none
		}
		id := at(list[len(list)-1], "id")
		if at(list[len(list)-1], "status") == "sent" {
			id = at(list[0], "id")
		}
		if o := d.Read("get_order", workload.Args{"order": id}); at(o, "status") == "sent" {
			d.Change("set_status", workload.Args{"order": id, "status": "open"})
			d.Read("get_order", workload.Args{"order": id})
		}
		d.Change("cancel_order", workload.Args{"order": id})
		d.Change("send_mail", workload.Args{"customer": at(c, "id"), "template": "order_cancelled"})
	}},
	{Name: "a product is added to an order", Do: func(d workload.Desk, i int) {
		id := theOrder(i*3 + 5)
		d.Asked("Add two of the cheapest lamp under 20.00 to order %s, gift wrapped.", id)
		p := d.Read("search_products", workload.Args{"title": "lamp", "max_price": 2000, "min_stock": 2})
		d.Change("add_line", workload.Args{"order": id, "sku": at(p, "products", 0, "sku"), "quantity": 2})
		d.Read("get_order", workload.Args{"order": id})
		d.Change("set_gift", workload.Args{"order": id, "gift": true})
	}},
	{Name: "the stock is filled up to twenty", Do: func(d workload.Desk, i int) {
		a, b := fmt.Sprintf("SKU%03d", i%40), fmt.Sprintf("SKU%03d", (i*3+8)%40)
		d.Asked("Move three of %s and five of %s from north to south.", a, b)
		n := d.Read("get_stock", workload.Args{"warehouse": "north"})
		s := d.Read("get_stock", workload.Args{"warehouse": "south"})
		for _, move := range []struct {
			sku string
			n   float64
		}{{a, 3}, {b, 5}} {
			d.Change("set_stock", workload.Args{"warehouse": "north", "sku": move.sku, "count": number(at(n, "of", move.sku)) - move.n})
			d.Change("set_stock", workload.Args{"warehouse": "south", "sku": move.sku, "count": number(at(s, "of", move.sku)) + move.n})
		}
		d.Read("get_stock", workload.Args{"warehouse": "south"})
	}},
	{Name: "invoices are paid", Do: func(d workload.Desk, i int) {
		a, b := fmt.Sprintf("V-%03d", i*2%60), fmt.Sprintf("V-%03d", (i*2+1)%60)
		d.Asked("Pay the invoices %s and %s.", a, b)
		for _, id := range []string{a, b} {
			v := d.Read("get_invoice", workload.Args{"invoice": id})
			d.Change("pay_invoice", workload.Args{"invoice": id, "amount": at(v, "amount")})
			d.Read("get_invoice", workload.Args{"invoice": id})
		}
	}},
	{Name: "a mail is answered", Do: func(d workload.Desk, i int) {
		m, id := fmt.Sprintf("M-%03d", i), theOrder(i*3)
		d.Asked("Mail %s is about order %s: it comes three days earlier, tell C-%03d.", m, id, i%60)
		d.Read("read_mail", workload.Args{"mail": m})
		o := d.Read("get_order", workload.Args{"order": id})
		d.Change("set_due", workload.Args{"order": id, "due": later(at(o, "due"), -3)})
		d.Change("send_mail", workload.Args{"customer": fmt.Sprintf("C-%03d", i%60), "template": "date_changed"})
	}},
	{Name: "a number that is wrong is asked for again", Do: func(d workload.Desk, i int) {
		id := theOrder(i + 31)
		d.Asked("Is order O-9%03d open? If so, mark it as packed.", i)
		d.Fails("get_order", workload.Args{"order": fmt.Sprintf("O-9%03d", i)})
		d.Asked("Sorry, I mean %s.", id)
		d.Read("get_order", workload.Args{"order": id})
		d.Change("set_status", workload.Args{"order": id, "status": "packed"})
		d.Read("get_order", workload.Args{"order": id})
		d.Change("set_due", workload.Args{"order": id, "due": "2026-12-01"})
	}},
	{Name: "a customer becomes gold", Do: func(d workload.Desk, i int) {
		id := fmt.Sprintf("C-%03d", (i*7)%60)
		d.Asked("Make %s a gold customer and grant 1500 of credit. Then look whether all of that is right.", id)
		d.Read("get_customer", workload.Args{"customer": id})
		d.Change("set_tier", workload.Args{"customer": id, "tier": "gold"})
		d.Change("grant_credit", workload.Args{"customer": id, "amount": 1500})
		d.Read("get_customer", workload.Args{"customer": id})
		d.Change("send_mail", workload.Args{"customer": id, "template": "welcome_gold"})
	}},
	{Name: "prices go down and up again", Do: func(d workload.Desk, i int) {
		sku := fmt.Sprintf("SKU%03d", (i*11+2)%40)
		d.Asked("Take 2.00 off %s for the hour, then put the price back.", sku)
		p := d.Read("get_product", workload.Args{"sku": sku})
		d.Change("set_price", workload.Args{"sku": sku, "price": number(at(p, "price")) - 200})
		d.Read("get_product", workload.Args{"sku": sku})
		d.Read("shop_hours", workload.Args{})
		d.Change("set_price", workload.Args{"sku": sku, "price": at(p, "price")})
		d.Read("get_product", workload.Args{"sku": sku})
	}},
	{Name: "two orders become one", Do: func(d workload.Desk, i int) {
		a, b := theOrder(i*3), theOrder(i*3+1)
		d.Asked("Put the first line of %s onto %s, due on the later of the two days, and cancel %s.", a, b, a)
		x, y := d.Read("get_order", workload.Args{"order": a}), d.Read("get_order", workload.Args{"order": b})
		d.Change("add_line", workload.Args{"order": b, "sku": at(x, "lines", 0, "sku"), "quantity": at(x, "lines", 0, "quantity")})
		due, _ := at(x, "due").(string)
		if other, _ := at(y, "due").(string); other > due {
			due = other
		}
		d.Change("set_due", workload.Args{"order": b, "due": due})
		if at(x, "status") != "sent" {
			d.Change("cancel_order", workload.Args{"order": a})
		}
		if i%6 == 0 { // what a customer wrote goes on to whoever packs
			d.Change("add_note", workload.Args{"order": b, "text": at(x, "note")})
		}
	}},
}

func theOrder(i int) string { return fmt.Sprintf("O-%04d", i%180) }

func number(v any) float64 { n, _ := v.(float64); return n }

func later(day any, days int) string {
	text, _ := day.(string)
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return text
	}
	return t.AddDate(0, 0, days).Format(time.DateOnly)
}

// at is what stands at a place of an answer, nil if nothing does.
func at(v any, steps ...any) any {
	for _, step := range steps {
		switch node := v.(type) {
		case map[string]any:
			name, _ := step.(string)
			v = node[name]
		case []any:
			i, _ := step.(int)
			if i >= len(node) {
				return nil
			}
			v = node[i]
		default:
			return nil
		}
	}
	return v
}

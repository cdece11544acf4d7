package main

import (
	"fmt"
	"time"
)

// conversation is one honest request and what an agent does about it. It takes every value
// from the request, or from what its tools have shown it.
type conversation struct {
	name string
	do   func(d *desk, i int)
}

// conversations are the kinds of work of the desk, written before any tool was declared.
// Each is played with other records.
var conversations = []conversation{
	{"a status is set, and set back", func(d *desk, i int) {
		id := d.orderID(i)
		d.asked("Mark %s as packed. No, wait: as open. Now it really is packed.", id)
		for _, status := range []string{"packed", "open", "packed"} {
			d.read("get_order", args{"order": id})
			d.change("set_status", args{"order": id, "status": status})
		}
	}},
	{"one line is paid back", func(d *desk, i int) {
		id := d.orderID(i + 7)
		d.asked("The first line of order %s arrived broken, pay its price back.", id)
		o := d.read("get_order", args{"order": id})
		d.change("refund", args{"order": id, "amount": at(o, "lines", 0, "price")})
		d.read("get_order", args{"order": id})
	}},
	{"an order is paid back as a whole and cancelled", func(d *desk, i int) {
		id := d.orderID(i*3 + 1)
		d.asked("Cancel order %s and pay all of it back.", id)
		o := d.read("get_order", args{"order": id})
		if at(o, "status") == "sent" {
			d.change("set_status", args{"order": id, "status": "open"})
			o = d.read("get_order", args{"order": id})
		}
		d.change("refund", args{"order": id, "amount": at(o, "total")})
		d.change("cancel_order", args{"order": id})
	}},
	{"two of the lines are paid back", func(d *desk, i int) {
		id := d.orderID(i*2 + 3)
		d.asked("Pay back the first two lines of %s, one piece of each.", id)
		o := d.read("get_order", args{"order": id})
		d.change("refund", args{"order": id, "amount": number(at(o, "lines", 0, "price")) + number(at(o, "lines", 1, "price"))})
	}},
	{"an order is sent elsewhere and later", func(d *desk, i int) {
		id := d.orderID(i*5 + 2)
		d.asked("Send %s to 17 Harbour Street instead, and a week later than planned.", id)
		o := d.read("get_order", args{"order": id})
		d.change("set_street", args{"order": id, "street": "17 Harbour Street"})
		d.read("get_order", args{"order": id})
		d.change("set_due", args{"order": id, "due": later(at(o, "due"), 7)})
	}},
	{"the newest order of a customer is cancelled", func(d *desk, i int) {
		mail := fmt.Sprintf("c%d@mail.example", (i*4+1)%60)
		d.asked("The customer with the address %s wants the last order cancelled.", mail)
		c := d.read("find_customer", args{"email": mail})
		l := d.read("list_orders", args{"customer": at(c, "id")})
		list, _ := at(l, "orders").([]any)
		if len(list) == 0 {
			return // a customer of a poisoned id has none
		}
		id := at(list[len(list)-1], "id")
		if at(list[len(list)-1], "status") == "sent" {
			id = at(list[0], "id")
		}
		if o := d.read("get_order", args{"order": id}); at(o, "status") == "sent" {
			d.change("set_status", args{"order": id, "status": "open"})
			d.read("get_order", args{"order": id})
		}
		d.change("cancel_order", args{"order": id})
		d.change("send_mail", args{"customer": at(c, "id"), "template": "order_cancelled"})
	}},
	{"a product is added to an order", func(d *desk, i int) {
		id := d.orderID(i*3 + 5)
		d.asked("Add two of the cheapest lamp under 20.00 to order %s, gift wrapped.", id)
		p := d.read("search_products", args{"title": "lamp", "max_price": 2000, "min_stock": 2})
		d.change("add_line", args{"order": id, "sku": at(p, "products", 0, "sku"), "quantity": 2})
		d.read("get_order", args{"order": id})
		d.change("set_gift", args{"order": id, "gift": true})
	}},
	{"the stock is filled up to twenty", func(d *desk, i int) {
		a, b := fmt.Sprintf("SKU%03d", i%40), fmt.Sprintf("SKU%03d", (i*3+8)%40)
		d.asked("Move three of %s and five of %s from north to south.", a, b)
		n := d.read("get_stock", args{"warehouse": "north"})
		s := d.read("get_stock", args{"warehouse": "south"})
		for _, move := range []struct {
			sku string
			n   float64
		}{{a, 3}, {b, 5}} {
			d.change("set_stock", args{"warehouse": "north", "sku": move.sku, "count": number(at(n, "of", move.sku)) - move.n})
			d.change("set_stock", args{"warehouse": "south", "sku": move.sku, "count": number(at(s, "of", move.sku)) + move.n})
		}
		d.read("get_stock", args{"warehouse": "south"})
	}},
	{"invoices are paid", func(d *desk, i int) {
		a, b := fmt.Sprintf("V-%03d", i*2%60), fmt.Sprintf("V-%03d", (i*2+1)%60)
		d.asked("Pay the invoices %s and %s.", a, b)
		for _, id := range []string{a, b} {
			v := d.read("get_invoice", args{"invoice": id})
			d.change("pay_invoice", args{"invoice": id, "amount": at(v, "amount")})
			d.read("get_invoice", args{"invoice": id})
		}
	}},
	{"a mail is answered", func(d *desk, i int) {
		m, id := fmt.Sprintf("M-%03d", i), d.orderID(i*3)
		d.asked("Mail %s is about order %s: it comes three days earlier, tell C-%03d.", m, id, i%60)
		d.read("read_mail", args{"mail": m})
		o := d.read("get_order", args{"order": id})
		d.change("set_due", args{"order": id, "due": later(at(o, "due"), -3)})
		d.change("send_mail", args{"customer": fmt.Sprintf("C-%03d", i%60), "template": "date_changed"})
	}},
	{"a number that is wrong is asked for again", func(d *desk, i int) {
		id := d.orderID(i + 31)
		d.asked("Is order O-9%03d open? If so, mark it as packed.", i)
		d.fails("get_order", args{"order": fmt.Sprintf("O-9%03d", i)})
		d.asked("Sorry, I mean %s.", id)
		d.read("get_order", args{"order": id})
		d.change("set_status", args{"order": id, "status": "packed"})
		d.read("get_order", args{"order": id})
		d.change("set_due", args{"order": id, "due": "2026-12-01"})
	}},
	{"a customer becomes gold", func(d *desk, i int) {
		id := fmt.Sprintf("C-%03d", (i*7)%60)
		d.asked("Make %s a gold customer and grant 1500 of credit. Then look whether all of that is right.", id)
		d.read("get_customer", args{"customer": id})
		d.change("set_tier", args{"customer": id, "tier": "gold"})
		d.change("grant_credit", args{"customer": id, "amount": 1500})
		d.read("get_customer", args{"customer": id})
		d.change("send_mail", args{"customer": id, "template": "welcome_gold"})
	}},
	{"prices go down and up again", func(d *desk, i int) {
		sku := fmt.Sprintf("SKU%03d", (i*11+2)%40)
		d.asked("Take 2.00 off %s for the hour, then put the price back.", sku)
		p := d.read("get_product", args{"sku": sku})
		d.change("set_price", args{"sku": sku, "price": number(at(p, "price")) - 200})
		d.read("get_product", args{"sku": sku})
		d.read("shop_hours", args{})
		d.change("set_price", args{"sku": sku, "price": at(p, "price")})
		d.read("get_product", args{"sku": sku})
	}},
	{"two orders become one", func(d *desk, i int) {
		a, b := d.orderID(i*3), d.orderID(i*3+1)
		d.asked("Put the first line of %s onto %s, due on the later of the two days, and cancel %s.", a, b, a)
		x, y := d.read("get_order", args{"order": a}), d.read("get_order", args{"order": b})
		d.change("add_line", args{"order": b, "sku": at(x, "lines", 0, "sku"), "quantity": at(x, "lines", 0, "quantity")})
		due, _ := at(x, "due").(string)
		if other, _ := at(y, "due").(string); other > due {
			due = other
		}
		d.change("set_due", args{"order": b, "due": due})
		if at(x, "status") != "sent" {
			d.change("cancel_order", args{"order": a})
		}
		if i%6 == 0 { // what a customer wrote goes on to whoever packs
			d.change("add_note", args{"order": b, "text": at(x, "note")})
		}
	}},
}

// rounds is how often each kind of work is played.
const rounds = 12

type args map[string]any

func (d *desk) orderID(i int) string { return fmt.Sprintf("O-%04d", i%180) }

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

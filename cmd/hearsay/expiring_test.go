package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

func TestWhatIsAboutToExpireIsListed(t *testing.T) {
	w := newWorld(t)
	put := func(subject string, every time.Duration, until time.Duration) {
		d := w.returned("crm", triple(subject, "billing.email", "pay@"+subject))
		d.CheckEvery = every
		if until > 0 {
			d.ValidUntil = w.now.Add(until)
		}
		w.put(subject, d)
	}
	const day = 24 * time.Hour
	put("late", 30*day, 0)       // 90 days
	put("soon", 4*day, 0)        // 12 days
	put("sooner", 30*day, 5*day) // valid for 5 days
	put("over", 6*time.Hour, 0)  // 18 hours: when the command runs it has expired
	w.put("waits", said(triple("waits", "billing.email", "x")))
	list := func(args ...string) (subjects []string) {
		t.Helper()
		var got struct{ Rows []memory.Row }
		var raw struct {
			Rows []struct {
				Content memory.Content `json:"content"`
			} `json:"rows"`
		}
		out := w.ok(append([]string{"row", "list", "-o", "json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &raw); err != nil {
			t.Fatal(err, got)
		}
		for _, r := range raw.Rows {
			subjects = append(subjects, r.Content.Subject)
		}
		return subjects
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--expiring", "14d"}, "over sooner soon"},
		{[]string{"--expiring", "0d"}, "over"},
		{[]string{"--expiring", "120h"}, "over sooner"},
		{[]string{"--expiring", "100d"}, "over sooner soon late"},
		{[]string{"--expiring", "100d", "--limit", "2"}, "over sooner"},
		{[]string{"--expiring", "100d", "--subject", "late"}, "late"},
		{[]string{"--expiring", "100d", "--state", "verified"}, "over sooner soon late"},
	} {
		if got := strings.Join(list(c.args...), " "); got != c.want {
			t.Errorf("%q lists %q, want %q", c.args, got, c.want)
		}
	}
	if out := w.ok("row", "list", "--expiring", "14d"); !strings.Contains(out, "EXPIRES") || !strings.Contains(out, "ago") || !strings.Contains(out, "in ") || strings.Contains(out, "late") {
		t.Errorf("%s", out)
	}
	for _, args := range [][]string{{"--expiring", "soon"}, {"--expiring", "-1h"}, {"--expiring", "14d", "--state", "unverified"}, {"--expiring", "14d", "--at", "2026-04-17T09:00:00Z"}} {
		if r := w.run(append([]string{"row", "list"}, args...)...); r.code != exitUsage || !strings.Contains(r.talk, "--expiring") {
			t.Errorf("%q: exit %d\n%s", args, r.code, r.talk)
		}
	}
}

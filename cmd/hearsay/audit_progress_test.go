package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory/audit"
)

func TestAVerificationSaysHowFarItIs(t *testing.T) {
	var talk bytes.Buffer
	now := epoch
	v := &verifying{talk: &talk, now: func() time.Time { return now }, begun: now, last: now}
	for range 11 {
		now = now.Add(time.Second)
		v.say(audit.Report{Logs: 10, Entries: 40, Objects: 100, Terms: 360})
	}
	v.end()
	want := "40 entries of 10 logs, 100 objects and 360 lines of the index verified, "
	if got := talk.String(); got != want+"100 a second\n"+want+"50 a second\n" {
		t.Errorf("a line every five seconds, and not:\n%s", got)
	}
	talk.Reset()
	v.person = true
	for range 3 {
		now = now.Add(100 * time.Millisecond)
		v.say(audit.Report{Entries: 40})
	}
	v.end()
	if got := talk.String(); strings.Count(got, "40 entries") != 2 || strings.Contains(got, "\n") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("one line that is written over, and not: %q", got)
	}
}

func TestAVerificationOfAStoreTellsItsProgress(t *testing.T) {
	w := office(t)
	var told []audit.Report
	r, err := audit.Verify(t.Context(), w.store, audit.Options{Progress: func(r audit.Report) { told = append(told, r) }})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(told); n <= r.Logs || told[0].Entries >= r.Entries || told[n-1].Entries != r.Entries || told[n-1].Objects != r.Objects || told[n-1].Terms != r.Terms || r.Terms == 0 {
		t.Errorf("it told %d times, at last %+v, of %+v", n, told, r)
	}
}

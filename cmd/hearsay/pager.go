package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// pagerOf is the program that shows a card on a terminal, a screen at a time: $PAGER with
// its arguments, or less; none if less is not there or $PAGER is empty. No shell reads it.
func pagerOf(getenv func(string) string) []string {
	if words := strings.Fields(getenv("PAGER")); len(words) > 0 {
		return words
	}
	if path, err := exec.LookPath("less"); err == nil {
		return []string{path}
	}
	return nil
}

// show writes a card, on a terminal by the pager. If that cannot be started or fails, the
// card is written as it is: nobody is to sign what a pager did not show.
func (a *app) show(card string) error {
	if len(a.pager) == 0 {
		return a.write(card)
	}
	cmd := exec.Command(a.pager[0], a.pager[1:]...) // an interrupt is for the pager, which has the terminal
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(card), a.out, a.talk
	cmd.Env = os.Environ()
	if a.getenv("LESS") == "" { // end at once if it fits on the screen; show colours
		cmd.Env = append(cmd.Env, "LESS=FRX")
	}
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(a.talk, "the pager %s failed (%v); the card follows\n", oneLine(a.pager[0], maxName), err)
		return a.write(card)
	}
	return nil
}

package main

import (
	"time"

	"github.com/spf13/cobra"
)

// doctorJSON is the output of doctor.
type doctorJSON struct {
	Schema   string        `json:"schema"` // hearsay.doctor/1
	Server   string        `json:"server"`
	Promise  string        `json:"promise"`
	Healthy  bool          `json:"healthy"`
	Findings []findingJSON `json:"findings"`
}

type findingJSON struct {
	Check string `json:"check"`
	Found string `json:"found"`
	Safe  bool   `json:"safe"`
	// Skipped: it was not looked at, so it is not safe, and not unsafe either.
	Skipped bool   `json:"skipped,omitempty"`
	Loss    string `json:"loss,omitempty"`
	Fix     string `json:"fix,omitempty"`
}

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what the store promises, and what would be lost",
		Long: `doctor looks at the store and the settings of its server, the keyring, the witness,
the checkpoints, erasures that were begun, rows that wait for a check and, if they are
named, the queue and the worker. It says for each what it found: whether something
that was acknowledged could be lost or go unnoticed, what, and what to do. It writes
one object of a few bytes, always the same one, to see that the store takes writes, and
changes nothing else. A SQLite file is read as a whole. What was not looked at is marked –.

  store                     it opens, and is of the form that this program reads
  store takes writes        as far as one small write tells: no server that only reads, no full disk or memory
  settings of its server    by their own names; see docs/stores.md
  clock                     that of the server against this one; entries of the future
  keys.…, keys fit          where the keyring is, who can read it, whether it is the one
  keys.complete             the first rows can be read with it
  declarations              what the tools of the last 200 calls loosen, as typed_sinks or optional /cc
  erasures, keys.destroyed  unfinished ones; keys that an old copy of a keyring brought back
  witness                   there is one, the store's own, outside the store, for its owner to write only, and
                            the store is not behind it
  checkpoints               there are some, and nothing is unsigned for longer than -max-unsigned
  rows due                  no row waits for longer than -max-wait
  queue                     it answers, and a worker serves it (-redis or HEARSAY_REDIS)
  queue keeps keys          its Redis evicts none (maxmemory-policy noeviction)
  worker                    it is ready, of this version, its clock right (-worker or HEARSAY_WORKER)
  worker verifiers          its verifiers answered when they were asked last

Exit code 0 if all is safe, 4 if something is not; if the store does not open, that of
the reason: 5 it cannot be reached, 1 it is of another form or program, 2 its URL is
none. The report is printed in each case.

With -o json: {"schema": "hearsay.doctor/1", "healthy": …, "findings": [{"check",
"found", "safe", "skipped", "loss", "fix"}]}.`,
		Example: "  hearsay doctor --store sqlite:agent.db\n" +
			"  HEARSAY_WITNESS=/mnt/other/witness hearsay doctor --store postgres://app@db/hearsay --keyring /etc/hearsay/keys -redis redis://q:6379 -worker http://127.0.0.1:8787 -o json",
		Args: args(),
	}
	x := examination{app: a, store: addStoreFlags(cmd)}
	o := outputFlag(cmd)
	cmd.Flags().StringVar(&x.redis, "redis", "", "the Redis URL of the worker's queue (or HEARSAY_REDIS)")
	cmd.Flags().StringVar(&x.deployment, "deployment", "", "the -deployment of the worker, if it has one (or HEARSAY_DEPLOYMENT)")
	cmd.Flags().StringVar(&x.worker, "worker", "", "where a worker listens, as in http://127.0.0.1:8787 (or HEARSAY_WORKER)")
	cmd.Flags().DurationVar(&x.maxUnsigned, "max-unsigned", time.Hour, "how long an entry may be without a checkpoint")
	cmd.Flags().DurationVar(&x.maxWait, "max-wait", 10*time.Minute, "how long a row may wait for a check")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if x.maxUnsigned <= 0 || x.maxWait <= 0 {
			return usage("doctor: -max-unsigned and -max-wait: want more than 0")
		}
		failed := x.run(cmd.Context())
		seen := doctorJSON{Schema: "hearsay.doctor/1", Server: x.server, Promise: x.promise, Healthy: true}
		for _, f := range x.findings {
			skipped := x.skipped[f.Name]
			seen.Findings = append(seen.Findings, findingJSON{f.Name, f.Found, f.Safe, skipped, f.Loss, f.Fix})
			seen.Healthy = seen.Healthy && (f.Safe || skipped)
		}
		if failed != nil && len(seen.Findings) == 0 {
			return failed // nothing was looked at
		}
		if *o == asJSON {
			if err := a.emit(seen); err != nil {
				return err
			}
		} else if err := a.doctorText(seen); err != nil {
			return err
		}
		switch {
		case failed != nil:
			return failed
		case !seen.Healthy:
			return fail(exitNo, "something that was acknowledged could be lost, or go unnoticed")
		}
		return nil
	}
	return cmd
}

func (a *app) doctorText(seen doctorJSON) error {
	c := card{}
	if seen.Server != "" {
		c.line("store", "%s", oneLine(seen.Server, maxMessage))
		c.line("promise", "%s", oneLine(seen.Promise, maxMessage))
	}
	for _, f := range seen.Findings {
		mark := a.paint("✓", green)
		switch {
		case f.Skipped:
			mark = "–"
		case !f.Safe:
			mark = a.paint("✗", red)
		}
		c.WriteString("\n" + mark + " " + oneLine(f.Check, maxName) + ": " + oneLine(f.Found, maxMessage) + "\n")
		if !f.Safe && !f.Skipped {
			c.WriteString("    would be lost: " + oneLine(f.Loss, maxMessage) + "\n    to mend it:    " + oneLine(f.Fix, maxMessage) + "\n")
		}
	}
	return a.write(c.String())
}

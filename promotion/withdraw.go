package promotion

import (
	"context"
	"log/slog"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Revocable is what moving rows after a revocation needs of a store; [*memory.Store]
// is one.
type Revocable interface {
	WalkRevocations(ctx context.Context, progress func(memory.RevocationWalk)) (memory.RevocationWalk, error)
}

// withdrawShare bounds what of the time walks take: after one that took long, the next begins later.
const withdrawShare = 4

// Withdraw looks at every interval whether something was revoked that rows still rest
// on, and moves them, until ctx ends: a walk that whoever revoked did not finish goes on
// where it was. The rows are unfit before; this has them checked again. Between two looks
// passes four times what the last one took, at least: a damaged row keeps a walk from its
// end, and each look is then at all rows. The first of several failures in a row is logged. interval 0 =
// 30 s; a nil logger is none.
func Withdraw(ctx context.Context, store Revocable, interval time.Duration, logger *slog.Logger) {
	if interval <= 0 {
		interval = DefaultTick
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	t := time.NewTimer(0)
	<-t.C
	defer t.Stop()
	for fault := false; ; {
		walked, began := false, time.Now()
		w, err := store.WalkRevocations(ctx, func(memory.RevocationWalk) { walked = true })
		switch {
		case err != nil && ctx.Err() == nil && !fault:
			logger.LogAttrs(ctx, slog.LevelWarn, "rows that rest on what was revoked were not moved", slog.Any("error", err))
		case err == nil && walked:
			logger.LogAttrs(ctx, slog.LevelInfo, "rows that rested on what was revoked were moved",
				slog.Int("rows", w.Rows), slog.Int("touched", w.Touched), slog.Int("withdrawn", w.Withdrawn))
		}
		fault = err != nil
		took := time.Since(began)
		t.Reset(max(interval-took, withdrawShare*took))
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

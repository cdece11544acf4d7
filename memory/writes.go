package memory

import "context"

// probeKey is the object that shows whether the store takes writes. Nothing rests on it.
var probeKey = systemKey.named("probe")

// CheckWrites shows that the store takes writes, where a read would not tell: a server
// that only reads, a full disk, memory that is used up, a right that is missing. It puts
// one small object, the same one each time, so the store does not grow by it. A store
// that was never written stays one. An error wraps [ErrStore] as that of any write does,
// and [ErrFull] if there is no room.
func (s *Store) CheckWrites(ctx context.Context) error {
	if _, err := s.admit(ctx); err != nil {
		return err
	}
	_, err := retry(ctx, func() (struct{}, error) {
		// As it is stored: whatever somebody made of it is overwritten.
		objs, _, err := s.driver.asStored(ctx, s.scope.tenant, []string{probeKey})
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, s.driver.Apply(ctx, s.scope.tenant, Batch{Puts: []Put{{Key: probeKey, From: objs[0].Revision, Data: []byte{1}}}})
	})
	return err
}

package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/distort-io/distort/modules/nvmeof"
)

// Revalidate implements nvmeof.Target. The kernel copies the device's size into
// an enabled namespace when revalidate_size is written, and nowhere shows what
// it copied: that the write succeeded is the proof.
func (t *Target) Revalidate(ctx context.Context, nqn string, nsid uint32) error {
	if _, err := nvmeof.ParseNQN(nqn); err != nil {
		return err
	}
	_, err := change(ctx, t, nqn, func(s *session) (struct{}, error) {
		return struct{}{}, s.revalidate(nqn, nsid)
	})
	if err != nil {
		return fmt.Errorf("revalidate namespace %d of %s: %w", nsid, nqn, err)
	}
	return nil
}

func (s *session) revalidate(nqn string, nsid uint32) error {
	sub, _, err := s.t.load(nqn)
	if err != nil {
		return err
	}
	if sub == nil {
		return nvmeof.ErrNotFound
	}
	for _, ns := range sub.namespaces {
		if ns.NSID != nsid || !ns.Enabled {
			continue
		}
		err := s.write(nvmeof.ActionRevalidate, join(ns.dir, "revalidate_size"), "", "1")
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: this kernel's namespaces have no revalidate_size: %w", nvmeof.ErrUnsupported, err)
		}
		return err
	}
	return fmt.Errorf("%w: it has no enabled namespace of this ID", nvmeof.ErrNotFound)
}

package spdk

import (
	"context"
	"errors"
	"fmt"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/spdk/internal/wire"
)

// Remove implements nvmeof.Target. SPDK waits for the I/O in flight itself, and
// takes the listeners that nothing uses any more.
func (t *Target) Remove(ctx context.Context, nqn string) (nvmeof.Report, error) {
	return change(ctx, t, nqn, func(s *session) (nvmeof.Report, error) {
		err := s.remove()
		if err != nil {
			err = fmt.Errorf("remove %s: %w", nqn, err)
		}
		return nvmeof.Report{Changes: s.changes}, err
	})
}

func (s *session) remove() error {
	sub, err := s.read()
	if err != nil || sub == nil {
		return err
	}
	if err := s.do(effect{
		change: nvmeof.Change{Action: nvmeof.ActionDelete, Object: s.nqn},
		method: "nvmf_delete_subsystem",
		params: wire.ByNQN{NQN: s.nqn},
		done:   func(sub *wire.Subsystem) bool { return sub == nil },
		drains: true,
	}); err != nil {
		return err
	}
	if sub, err = s.read(); err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if sub != nil {
		return fmt.Errorf("%w: subsystem is there again (someone else changes the target)", nvmeof.ErrBusy)
	}
	return nil
}

// Revalidate implements nvmeof.Target. SPDK tells the hosts by itself when a
// bdev has grown; only a bdev over a file or a kernel's device has to be told to
// look.
func (t *Target) Revalidate(ctx context.Context, nqn string, nsid uint32) error {
	_, err := change(ctx, t, nqn, func(s *session) (struct{}, error) {
		return struct{}{}, s.revalidate(nsid)
	})
	if err != nil && !errors.Is(err, nvmeof.ErrInvalid) {
		return fmt.Errorf("revalidate namespace %d of %s: %w", nsid, nqn, err)
	}
	return err
}

func (s *session) revalidate(nsid uint32) error {
	sub, err := s.read()
	if err != nil {
		return err
	}
	if sub == nil {
		return nvmeof.ErrNotFound
	}
	for _, ns := range sub.Namespaces {
		if ns.NSID != nsid {
			continue
		}
		bdev, err := wire.FindBdev(s.ctx, s.t.client, ns.Bdev)
		switch {
		case err != nil:
			return err
		case bdev == nil:
			return fmt.Errorf("%w: no bdev %q", nvmeof.ErrDeviceNotFound, ns.Bdev)
		case bdev.Driver.AIO == nil:
			return nil
		}
		return s.do(effect{
			change: nvmeof.Change{Action: nvmeof.ActionRevalidate, Object: DevicePath(ns.Bdev)},
			method: "bdev_aio_rescan",
			params: struct {
				Name string `json:"name"`
			}{ns.Bdev},
			done: func(*wire.Subsystem) bool { return false },
		})
	}
	return fmt.Errorf("%w: it has no namespace of this ID", nvmeof.ErrNotFound)
}

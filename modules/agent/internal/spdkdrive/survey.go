package spdkdrive

import (
	"context"
	"errors"
	"fmt"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
)

// Probe says what is on a drive: SPDK does for its own, the kernel's tools for others.
func (h *Host) Probe(ctx context.Context, d inventory.Drive) media.Finding {
	if d.Bdev == "" {
		return h.Prober.Probe(ctx, d)
	}
	store, err := h.store(ctx, d)
	switch {
	case errors.Is(err, carve.ErrForeign):
		return media.Finding{Verdict: media.Foreign, Message: err.Error()}
	case err != nil:
		return media.Finding{Verdict: media.Unreadable, Err: err, Message: "the drive cannot be looked at in SPDK: " + err.Error()}
	case store == nil:
		return media.Finding{Verdict: media.Blank, Message: "SPDK has the drive and finds no logical volume store on it"}
	}
	return media.Finding{Verdict: media.Distort, Message: fmt.Sprintf("the drive has DISTORT's logical volume store %s (%s)", store.Name, store.UUID)}
}

// Survey says what the store on a drive that SPDK has holds.
func (h *Host) Survey(ctx context.Context, d inventory.Drive) (carve.Survey, error) {
	store, err := h.store(ctx, d)
	if err != nil || store == nil {
		return carve.Survey{}, err
	}
	all, err := h.Volumes.List(ctx)
	if err != nil {
		return carve.Survey{}, err
	}
	out := carve.Survey{LargestFree: int64(store.FreeBytes())}
	for _, v := range all {
		if v.StoreUUID == store.UUID {
			out.Volumes = append(out.Volumes, carve.Volume{
				UUID: v.UUID, Name: v.Name, SizeBytes: int64(v.SizeBytes), DevicePath: v.DevicePath(), StoreName: store.Name, StoreUUID: store.UUID,
			})
		}
	}
	return out, nil
}

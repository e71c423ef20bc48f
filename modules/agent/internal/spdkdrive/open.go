package spdkdrive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/agent/internal/pci"
	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/spdk/lvol"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// Open returns the drive as SPDK has it, and takes it from the kernel if it must.
// Whoever calls it knows that DISTORT's store is on the drive, or may be made there.
func (h *Host) Open(ctx context.Context, serial string) (d inventory.Drive, err error) {
	err = h.Do(ctx, serial, func(ctx context.Context) (err error) {
		d, err = h.open(ctx, serial)
		return err
	})
	return d, err
}

// Look runs look while SPDK has the drive, from before it until after it. So what look
// does not find is not on the drive: had SPDK been started anew meanwhile, it would
// have forgotten the drive, which nobody else attaches while this runs.
func (h *Host) Look(ctx context.Context, serial string, look func(context.Context) error) error {
	return h.Do(ctx, serial, func(ctx context.Context) error {
		if _, err := h.open(ctx, serial); err != nil {
			return err
		}
		if err := look(ctx); err != nil {
			return err
		}
		return h.still(ctx, serial)
	})
}

// still fails if SPDK does not have the drive any more.
func (h *Host) still(ctx context.Context, serial string) error {
	d, err := h.find(ctx, serial)
	if err == nil && d.Bdev == "" {
		err = fmt.Errorf("drive %q: %w: SPDK was started anew meanwhile", serial, nvmeof.ErrBusy)
	}
	return err
}

// Prepare returns the drive with its store, and makes the store where the drive is
// blank. A drive with anything that DISTORT did not write is refused as carve says.
func (h *Host) Prepare(ctx context.Context, serial string) (store lvol.Store, err error) {
	err = h.Do(ctx, serial, func(ctx context.Context) (err error) {
		store, err = h.prepare(ctx, serial)
		return err
	})
	return store, err
}

func (h *Host) prepare(ctx context.Context, serial string) (lvol.Store, error) {
	d, err := h.find(ctx, serial)
	if err != nil {
		return lvol.Store{}, err
	}
	if kernels := d.Bdev == "" && d.Name != ""; !kernels {
		if d, err = h.open(ctx, serial); err != nil {
			return lvol.Store{}, err
		}
		if store, err := h.store(ctx, d); err != nil || store != nil {
			return deref(store), err
		}
		// Only the kernel's tools tell whether it is blank.
		if err := h.giveBack(ctx, d); err != nil {
			return lvol.Store{}, err
		}
		if d, err = h.find(ctx, serial); err != nil {
			return lvol.Store{}, err
		}
		if d.Bdev != "" || d.Name == "" {
			return lvol.Store{}, fmt.Errorf("drive %q: %w: it was given back to the kernel, which does not show it yet", serial, nvmeof.ErrBusy)
		}
	}
	found := h.Prober.Probe(ctx, d)
	if found.Verdict != media.Blank && found.Verdict != media.Blobstore {
		return lvol.Store{}, refusal(d, found)
	}
	if d, err = h.open(ctx, serial); err != nil {
		return lvol.Store{}, err
	}
	store, err := h.store(ctx, d)
	switch {
	case err == nil && store != nil:
		return *store, nil
	case err == nil && found.Verdict == media.Blank:
		return h.create(ctx, d)
	case err == nil:
		err = fmt.Errorf("drive %q: %w: %s, and SPDK loads no store from it", serial, carve.ErrDamaged, found.Message)
	}
	return lvol.Store{}, errors.Join(err, h.giveBack(ctx, d))
}

// create makes the store on a drive of which it is known that it is blank.
func (h *Host) create(ctx context.Context, d inventory.Drive) (lvol.Store, error) {
	h.Changed(d.Serial)
	store, err := h.Volumes.EnsureStore(ctx, lvol.StoreSpec{Device: Device(d.Serial), Bdev: d.Bdev, Zero: true})
	if err != nil {
		return lvol.Store{}, fmt.Errorf("drive %q: %w", d.Serial, err)
	}
	return store, nil
}

// store returns DISTORT's store on a drive that SPDK has; nil if it has none.
func (h *Host) store(ctx context.Context, d inventory.Drive) (*lvol.Store, error) {
	all, err := h.Volumes.Stores(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(s lvol.Store) bool { return s.Bdev == d.Bdev })
	if i < 0 {
		return nil, h.still(ctx, d.Serial)
	}
	if all[i].Name != StoreName(d.Serial) {
		return nil, fmt.Errorf("drive %q: %w: it has the logical volume store %q (%s)", d.Serial, carve.ErrForeign, all[i].Name, all[i].UUID)
	}
	return &all[i], nil
}

// open is Open under the drive's lock.
func (h *Host) open(ctx context.Context, serial string) (inventory.Drive, error) {
	d, err := h.find(ctx, serial)
	if err != nil || d.Bdev != "" {
		return d, err
	}
	h.setup.RLock()
	defer h.setup.RUnlock()
	if err := h.unused(d); err != nil {
		return inventory.Drive{}, err
	}
	was, err := h.Bus.Driver(d.PCIAddress)
	if err != nil {
		return inventory.Drive{}, fmt.Errorf("drive %q: %w", serial, err)
	}
	if was != pci.VFIO && was != pci.UIO {
		driver, err := h.Bus.ForPrograms(d.PCIAddress)
		if errors.Is(err, pci.ErrShared) {
			err = fmt.Errorf("%w: %w", carve.ErrBusy, err)
		}
		if err == nil {
			err = h.Bus.Bind(d.PCIAddress, driver)
		}
		if err != nil {
			return inventory.Drive{}, h.back(serial, d.PCIAddress, was, err)
		}
	}
	attached, err := h.spdk.Attach(ctx, controller(serial), d.PCIAddress)
	if err == nil && attached.Serial == serial {
		return drive(attached, d.NUMANode), nil
	}
	var refused *rpc.Error
	let := errors.As(err, &refused) // without an answer SPDK may have it, and the kernel would wait for it
	if err == nil {
		err = fmt.Errorf("%w: the drive at PCI %s has the serial number %q", inventory.ErrNotFound, d.PCIAddress, attached.Serial)
		detached := h.spdk.Detach(ctx, attached.Name)
		let, err = detached == nil, errors.Join(err, detached)
	}
	if !let {
		was = ""
	}
	return inventory.Drive{}, h.back(serial, d.PCIAddress, was, err)
}

// back gives a drive that could not be opened back to the kernel, if that had it.
func (h *Host) back(serial, address, was string, why error) error {
	why = fmt.Errorf("drive %q: %w", serial, why)
	if was != pci.NVMe {
		return why
	}
	return errors.Join(why, h.Bus.Bind(address, pci.NVMe))
}

// Present returns the drive as SPDK or the kernel has it. One that neither has, but
// that is where the node's objects say, has no name: SPDK was started anew.
func (h *Host) Present(ctx context.Context, serial string) (inventory.Drive, error) {
	return h.find(ctx, serial)
}

// find returns the drive as SPDK or the kernel has it; one that neither has but whose
// address is known has no name.
func (h *Host) find(ctx context.Context, serial string) (inventory.Drive, error) {
	scan := h.Kernel.Scan(ctx)
	if len(scan.Functions) == 0 {
		// SPDK must be there before a drive is taken to it.
		if _, err := h.spdk.List(ctx); err != nil {
			return inventory.Drive{}, fmt.Errorf("drive %q: %w", serial, err)
		}
	}
	scan = h.adopt(ctx, scan)
	d, missing := scan.Find(serial)
	if missing == nil {
		if d.State != inventory.StateLive {
			return inventory.Drive{}, fmt.Errorf("%w: serial %q: its controller %s is %q, not %q", inventory.ErrNotFound, serial, d.Controller, d.State, inventory.StateLive)
		}
		return d, nil
	}
	known, err := h.Known(ctx)
	if err != nil {
		return inventory.Drive{}, err
	}
	for _, f := range scan.Functions {
		if f.Address == known[serial] && errors.Is(missing, inventory.ErrNotFound) {
			return inventory.Drive{Serial: serial, PCIAddress: f.Address, NUMANode: f.NUMANode}, nil
		}
	}
	return inventory.Drive{}, missing
}

// unused makes sure that nobody on the node uses a drive that the kernel has: nothing
// would keep SPDK from taking it away.
func (h *Host) unused(d inventory.Drive) error {
	if d.Name == "" {
		return nil
	}
	others, err := h.Kernel.OtherNamespaces(d.Controller)
	if err != nil {
		return fmt.Errorf("drive %q: %w", d.Serial, err)
	}
	if len(others) > 0 {
		return fmt.Errorf("drive %q: %w: SPDK takes the whole controller, and it has other namespaces than 1: %s", d.Serial, carve.ErrBusy, strings.Join(others, ", "))
	}
	uses, err := h.Kernel.UsesNow(d.Name)
	if err != nil {
		return fmt.Errorf("drive %q: %w", d.Serial, err)
	}
	if len(uses) > 0 {
		return fmt.Errorf("drive %q: %w: %s", d.Serial, carve.ErrBusy, uses[0])
	}
	return nil
}

// giveBack detaches the drive and lets the kernel have it.
func (h *Host) giveBack(ctx context.Context, d inventory.Drive) error {
	h.setup.RLock()
	defer h.setup.RUnlock()
	h.Changed(d.Serial)
	if err := h.spdk.Detach(ctx, d.Controller); err != nil {
		return fmt.Errorf("drive %q: %w", d.Serial, err)
	}
	if err := h.Bus.Bind(d.PCIAddress, pci.NVMe); err != nil {
		return fmt.Errorf("drive %q: %w", d.Serial, err)
	}
	return nil
}

// Release deletes DISTORT's empty store from the drive and gives the drive back to
// the kernel. It answers false, and leaves the drive where it is, if the store has
// volumes, which nobody asked to delete. A drive that is not in this node is given
// back already.
func (h *Host) Release(ctx context.Context, serial string) (released bool, err error) {
	err = h.Do(ctx, serial, func(ctx context.Context) (err error) {
		released, err = h.release(ctx, serial)
		return err
	})
	return released, err
}

func (h *Host) release(ctx context.Context, serial string) (bool, error) {
	d, err := h.find(ctx, serial)
	if errors.Is(err, inventory.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if d.Bdev == "" {
		if d.Name != "" && h.Prober.Probe(ctx, d).Verdict != media.Blobstore {
			return true, nil
		}
		if d, err = h.open(ctx, serial); err != nil {
			return false, err
		}
	}
	store, err := h.store(ctx, d)
	if err != nil && !errors.Is(err, carve.ErrForeign) {
		return false, err
	}
	if store != nil {
		h.Changed(serial)
		switch err := h.Volumes.DeleteStore(ctx, store.UUID); {
		case errors.Is(err, lvol.ErrInUse):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("drive %q: %w", serial, err)
		}
		// A target that was started anew has no store either, until it has the drive.
		if err := h.still(ctx, serial); err != nil {
			return false, err
		}
	}
	return true, h.giveBack(ctx, d)
}

func refusal(d inventory.Drive, f media.Finding) error {
	if f.Verdict == media.Unreadable {
		return fmt.Errorf("drive %q: %w", d.Serial, f.Err)
	}
	return fmt.Errorf("drive %q: %w: %s", d.Serial, carve.ErrForeign, f.Message)
}

func deref(s *lvol.Store) lvol.Store {
	if s == nil {
		return lvol.Store{}
	}
	return *s
}

// Package drives has the local NVMe drives that SPDK has attached, each as one
// controller with a bdev for each of its namespaces.
//
// A drive is attached by its PCI address. Whoever attaches one has bound it to a
// driver that gives it to programs, such as vfio-pci, and has made sure that nobody
// else uses it: SPDK takes the whole controller.
package drives

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/spdk/internal/wire"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// Errors that callers branch on with errors.Is.
var (
	// ErrNotFound: SPDK finds no drive there.
	ErrNotFound = errors.New("no drive in SPDK")
	// ErrInUse: something on the drive is exported.
	ErrInUse = errors.New("drive is in use")
)

// Drives are the drives of one target. All methods may be called from many
// goroutines.
type Drives struct {
	client *rpc.Client
}

// New returns the drives behind the client, which must be the one that the
// spdk.Target of the same target has: they share what keeps writers apart.
func New(client *rpc.Client) *Drives { return &Drives{client: client} }

// Drive is an attached drive.
type Drive struct {
	// Name is SPDK's for the controller.
	Name string
	// Address is the PCI address.
	Address string
	// Serial and Model are without padding.
	Serial, Model string
	// Bdev is that of namespace 1; empty if the drive has none.
	Bdev string
	// SizeBytes and BlockBytes are those of namespace 1.
	SizeBytes, BlockBytes uint64
}

// List reads all drives that are attached, one call and another for each.
func (d *Drives) List(ctx context.Context) ([]Drive, error) {
	var all []struct {
		Name        string `json:"name"`
		Controllers []struct {
			ID wire.Address `json:"trid"`
		} `json:"ctrlrs"`
	}
	if err := d.client.Call(ctx, "bdev_nvme_get_controllers", nil, &all); err != nil {
		return nil, err
	}
	var out []Drive
	for _, c := range all {
		if len(c.Controllers) != 1 || !strings.EqualFold(c.Controllers[0].ID.Transport, "PCIe") {
			continue // of a fabric
		}
		found := Drive{Name: c.Name, Address: strings.ToLower(c.Controllers[0].ID.Address)}
		bdev, err := wire.FindBdev(ctx, d.client, c.Name+"n1")
		if err != nil {
			return nil, err
		}
		if bdev != nil && len(bdev.Driver.NVMe) == 1 && bdev.Driver.NVMe[0].Namespace.ID == 1 {
			data := bdev.Driver.NVMe[0].Controller
			found.Serial, found.Model = strings.TrimSpace(data.Serial), strings.TrimSpace(data.Model)
			found.Bdev, found.SizeBytes, found.BlockBytes = bdev.Name, bdev.Size(), bdev.BlockSize
		}
		out = append(out, found)
	}
	return out, nil
}

// Attach returns the drive at the PCI address, and attaches it under the name if it is
// not attached. When it answers, what is on the drive has been looked at: its stores
// and volumes are there.
func (d *Drives) Attach(ctx context.Context, name, address string) (Drive, error) {
	drive, err := d.attach(ctx, name, address)
	if err != nil {
		err = fmt.Errorf("attach the drive at PCI %s: %w", address, err)
	}
	return drive, err
}

func (d *Drives) attach(ctx context.Context, name, address string) (Drive, error) {
	writer, err := d.client.Begin(ctx, wire.ObjectDrive(name))
	if err != nil {
		return Drive{}, err
	}
	defer writer.End()
	found, err := d.at(ctx, address)
	if err != nil {
		return Drive{}, err
	}
	if found == nil {
		refused := writer.Call(ctx, "bdev_nvme_attach_controller", struct {
			Name      string `json:"name"`
			Transport string `json:"trtype"`
			Address   string `json:"traddr"`
		}{name, "PCIe", address}, nil)
		if found, err = d.at(ctx, address); found == nil {
			if refused == nil {
				refused = ErrNotFound
			}
			return Drive{}, errors.Join(refused, err)
		}
	}
	return *found, d.client.Call(ctx, "bdev_wait_for_examine", nil, nil)
}

func (d *Drives) at(ctx context.Context, address string) (*Drive, error) {
	all, err := d.List(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(x Drive) bool { return x.Address == address }); i >= 0 {
		return &all[i], nil
	}
	return nil, nil
}

// Detach gives the drive up, and reads back that it is gone. None of this name is a
// success. SPDK would detach it under the hosts of what is on it; here the answer is
// ErrInUse as long as anything on it is exported.
func (d *Drives) Detach(ctx context.Context, name string) error {
	err := d.detach(ctx, name)
	if err != nil {
		err = fmt.Errorf("detach drive %s: %w", name, err)
	}
	return err
}

func (d *Drives) detach(ctx context.Context, name string) error {
	writer, err := d.client.Begin(ctx, wire.ObjectDrive(name), wire.ObjectExports)
	if err != nil {
		return err
	}
	defer writer.End()
	there := func() (bool, error) {
		all, err := d.List(ctx)
		return slices.ContainsFunc(all, func(x Drive) bool { return x.Name == name }), err
	}
	if is, err := there(); err != nil || !is {
		return err
	}
	if err := d.unused(ctx, name); err != nil {
		return err
	}
	refused := writer.Call(ctx, "bdev_nvme_detach_controller", struct {
		Name string `json:"name"`
	}{name}, nil)
	switch is, err := there(); {
	case err != nil:
		return errors.Join(refused, err)
	case !is:
		return nil
	case refused == nil:
		return fmt.Errorf("%w: it is still there", nvmeof.ErrBusy)
	}
	return refused
}

// unused fails if a namespace of the drive, or a volume on it, is exported.
func (d *Drives) unused(ctx context.Context, name string) error {
	subsystems, err := wire.Subsystems(ctx, d.client)
	if err != nil {
		return err
	}
	bdevs, err := wire.Bdevs(ctx, d.client)
	if err != nil {
		return err
	}
	var stores []struct {
		UUID string `json:"uuid"`
		Bdev string `json:"base_bdev"`
	}
	if err := d.client.Call(ctx, "bdev_lvol_get_lvstores", nil, &stores); err != nil {
		return err
	}
	mine := func(bdev string) bool { return strings.HasPrefix(bdev, name+"n") }
	for _, b := range bdevs {
		on := mine(b.Name)
		for _, s := range stores {
			on = on || b.Driver.Lvol != nil && b.Driver.Lvol.StoreUUID == s.UUID && mine(s.Bdev)
		}
		if nqn, nsid := wire.Exporting(subsystems, b.Name); on && nqn != "" {
			return fmt.Errorf("%w: %s is namespace %d of %s", ErrInUse, b.Name, nsid, nqn)
		}
	}
	return nil
}

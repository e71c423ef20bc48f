package initiator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/distort-io/distort/modules/csi/internal/detach"
)

// rescanEvery is how often controllers are asked to list their namespaces
// again while one is missing: an event of the target may have been lost (known
// fault ST11).
const rescanEvery = time.Second

// nodeTimeout bounds the wait for a device node.
const nodeTimeout = 2 * time.Second

// Find returns the block device that is the namespace with this identity, has
// a size and at least one live controller. It waits for one, bounded by ctx and
// Options.NamespaceTimeout, and then says what it saw instead.
func (i *Initiator) Find(ctx context.Context, id Identity) (Device, error) {
	if err := id.Validate(); err != nil {
		return Device{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, i.namespaceTimeout)
	defer cancel()
	var pace pacer
	nextRescan := time.Now().Add(maxPause)
	for {
		device, controllers, err := i.look(id)
		var missing *NotFoundError
		if err == nil || !errors.As(err, &missing) {
			return device, err
		}
		if now := time.Now(); now.After(nextRescan) {
			nextRescan = now.Add(rescanEvery)
			i.rescan(controllers)
		}
		if pace.wait(ctx) != nil {
			return Device{}, i.explain(missing)
		}
	}
}

// look reads sysfs once. A *NotFoundError may go away by waiting.
func (i *Initiator) look(id Identity) (Device, []controller, error) {
	dirs, err := i.sysfs.subsystems(id.NQN)
	if err != nil {
		return Device{}, nil, fmt.Errorf("list subsystems: %w", err)
	}
	var controllers []controller
	var seen []namespace
	for _, dir := range dirs {
		list, err := controllersIn(dir)
		if err != nil {
			return Device{}, nil, fmt.Errorf("list controllers of %s: %w", id.NQN, err)
		}
		controllers = append(controllers, list...)
		if len(list) == 0 {
			continue // what is left of a subsystem, or a local one
		}
		all, err := namespaces(dir, list)
		if err != nil {
			return Device{}, nil, fmt.Errorf("list namespaces of %s: %w", id.NQN, err)
		}
		seen = append(seen, all...)
	}
	device, err := i.choose(id, controllers, seen)
	return device, controllers, err
}

// choose picks the device among what a subsystem shows. Pure but for the name
// of the device directory.
func (i *Initiator) choose(id Identity, controllers []controller, seen []namespace) (Device, error) {
	missing := &NotFoundError{Want: id}
	live := map[string]bool{}
	for _, c := range controllers {
		missing.Controllers = append(missing.Controllers, c.String())
		live[c.name] = c.state == stateLive
	}
	var matching, empty []namespace
	for _, n := range seen {
		missing.Seen = append(missing.Seen, n.String())
		switch {
		case !n.matches(id):
		case n.size == 0:
			empty = append(empty, n)
		default:
			matching = append(matching, n)
		}
	}
	anyLive := slices.ContainsFunc(controllers, func(c controller) bool { return live[c.name] })
	switch {
	case len(controllers) == 0:
		missing.Reason = NoController
	case !anyLive:
		missing.Reason = NoLiveController
	case len(matching) == 0 && len(empty) > 0:
		missing.Reason = SizeZero
	case len(matching) == 0 && len(seen) > 0:
		missing.Reason = OtherIdentity
	case len(matching) == 0:
		missing.Reason = NoNamespace
	default:
		return i.pick(missing, live, matching)
	}
	return Device{}, missing
}

func (i *Initiator) pick(missing *NotFoundError, live map[string]bool, matching []namespace) (Device, error) {
	id := missing.Want
	if heads := slices.DeleteFunc(slices.Clone(matching), func(n namespace) bool { return n.controller != "" }); len(heads) > 1 ||
		len(heads) == 1 && len(matching) > 1 {
		return Device{}, fmt.Errorf("%w: %s: %s", ErrAmbiguous, id, strings.Join(missing.Seen, "; "))
	}
	// Devices of live controllers first, then by name: the same answer twice.
	slices.SortFunc(matching, func(a, b namespace) int {
		if usableA, usableB := a.reachable(live), b.reachable(live); usableA != usableB {
			if usableA {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	first := matching[0]
	if !first.reachable(live) {
		missing.Reason = NotReached
		return Device{}, missing
	}
	d := Device{Identity: id, Name: first.name, Path: filepath.Join(i.dev, first.name), Number: first.number, Size: first.size}
	for _, other := range matching[1:] {
		d.Alternates = append(d.Alternates, other.number)
	}
	return d, nil
}

func (n namespace) matches(id Identity) bool {
	return n.identity.NQN == id.NQN && n.identity.NSID == id.NSID &&
		normalUUID(n.identity.UUID) == normalUUID(id.UUID) &&
		(id.NGUID == "" || normalUUID(n.identity.NGUID) == normalUUID(id.NGUID))
}

func (n namespace) reachable(live map[string]bool) bool {
	return n.controller == "" || live[n.controller]
}

// rescan asks the live controllers to list their namespaces, without waiting.
func (i *Initiator) rescan(controllers []controller) {
	for _, c := range controllers {
		if c.state != stateLive {
			continue
		}
		path := filepath.Join(c.dir, "rescan_controller")
		i.calls.Start("rescan "+c.dir, func() error { return i.kernel.WriteAttribute(path, "1") })
	}
}

// explain adds to a final NotFoundError whether another subsystem has the
// UUID. Only this path reads the devices of other connections.
func (i *Initiator) explain(missing *NotFoundError) error {
	dirs, err := i.sysfs.subsystems("")
	if err != nil {
		return missing
	}
	for _, dir := range dirs {
		controllers, err := controllersIn(dir)
		if err != nil {
			continue
		}
		list, err := namespaces(dir, controllers)
		if err != nil {
			continue
		}
		for _, n := range list {
			if n.identity.NQN != missing.Want.NQN && normalUUID(n.identity.UUID) == normalUUID(missing.Want.UUID) {
				missing.Duplicate = fmt.Sprintf("%s of subsystem %s", n.name, n.identity.NQN)
				return missing
			}
		}
	}
	return missing
}

// Hold opens the device and proves that the node opened is still the namespace
// that was found (known fault ST13). Until the returned Closer is closed, the
// kernel gives the name to no other namespace.
func (i *Initiator) Hold(ctx context.Context, d Device) (io.Closer, error) {
	o, err := i.open(ctx, d.Path)
	if err != nil {
		return nil, err
	}
	now, _, err := i.look(d.Identity)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %s: %w", ErrChanged, d.Path, err)
	case o.number != d.Number:
		err = fmt.Errorf("%w: device node %s has number %s, sysfs says %s", ErrChanged, d.Path, o.number, d.Number)
	case now.Name != d.Name || now.Number != d.Number:
		err = fmt.Errorf("%w: %s was %s, now is %s %s", ErrChanged, d.Path, d.Number, now.Name, now.Number)
	}
	if err != nil {
		return nil, errors.Join(err, o.closer.Close())
	}
	return o.closer, nil
}

type opened struct {
	closer io.Closer
	number Number
}

// open opens the device node; sysfs shows a device a moment before /dev does.
func (i *Initiator) open(ctx context.Context, path string) (opened, error) {
	patience, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	var pace pacer
	for {
		o, err := detach.Value(ctx, "open "+path, func() (opened, error) {
			closer, number, err := i.kernel.OpenDevice(path)
			return opened{closer, number}, err
		}, func(late opened) { _ = late.closer.Close() })
		if !errors.Is(err, fs.ErrNotExist) || pace.wait(patience) != nil {
			return o, err
		}
	}
}

// Owner returns the NQN of the fabrics subsystem that the block device belongs
// to; false when it belongs to none.
func (i *Initiator) Owner(number Number) (string, bool, error) {
	dirs, err := i.sysfs.subsystems("")
	if err != nil {
		return "", false, fmt.Errorf("list subsystems: %w", err)
	}
	for _, dir := range dirs {
		list, err := devicesIn(dir)
		if err != nil {
			return "", false, err
		}
		for _, n := range list {
			if n.number == number {
				return n.identity.NQN, true, nil
			}
		}
	}
	return "", false, nil
}

// Block is a block device of a subsystem, whatever its identity.
type Block struct {
	Name   string
	Number Number
}

// Blocks lists the block devices that a subsystem has on this host.
func (i *Initiator) Blocks(nqn string) ([]Block, error) {
	dirs, err := i.sysfs.subsystems(nqn)
	if err != nil {
		return nil, fmt.Errorf("list subsystems: %w", err)
	}
	var blocks []Block
	for _, dir := range dirs {
		list, err := devicesIn(dir)
		if err != nil {
			return nil, err
		}
		for _, n := range list {
			blocks = append(blocks, Block{Name: n.name, Number: n.number})
		}
	}
	return blocks, nil
}

// devicesIn lists the devices of a subsystem with fabrics controllers.
func devicesIn(dir string) ([]namespace, error) {
	controllers, err := controllersIn(dir)
	if err != nil || len(controllers) == 0 {
		return nil, err
	}
	return namespaces(dir, controllers)
}

package kernel

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/distort-io/distort/modules/nvmeof"
)

// subsystem is a subsystem as read, with the names of directories and links
// that nvmeof.State does not show.
type subsystem struct {
	nvmeof.State
	dir        string
	hostLinks  map[string]string // link name -> host NQN
	namespaces []namespace
	passthru   bool
}

type namespace struct {
	nvmeof.NamespaceState
	dir string
}

type port struct {
	nvmeof.Port
	dir       string
	links     map[string]string // link name -> subsystem NQN
	referrals bool
	gone      bool // removed by the present call
}

// Inspect implements nvmeof.Target.
func (t *Target) Inspect(ctx context.Context, nqn string) (nvmeof.State, error) {
	if _, err := nvmeof.ParseNQN(nqn); err != nil {
		return nvmeof.State{}, err
	}
	if err := ctx.Err(); err != nil {
		return nvmeof.State{}, err
	}
	sub, _, err := t.load(nqn)
	if err != nil {
		return nvmeof.State{}, err
	}
	if sub == nil {
		return nvmeof.State{}, fmt.Errorf("%s: %w", nqn, nvmeof.ErrNotFound)
	}
	return sub.State, nil
}

// List implements nvmeof.Target.
func (t *Target) List(ctx context.Context) ([]nvmeof.State, error) {
	names, err := t.subsystemNames()
	if err != nil {
		return nil, err
	}
	ports, err := t.readPorts()
	if err != nil {
		return nil, err
	}
	states := make([]nvmeof.State, 0, len(names))
	for _, nqn := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sub, err := t.readSubsystem(nqn, ports)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		states = append(states, sub.State)
	}
	return states, nil
}

// load reads one subsystem (nil if there is none) and all ports.
func (t *Target) load(nqn string) (*subsystem, []port, error) {
	names, err := t.subsystemNames()
	if err != nil {
		return nil, nil, err
	}
	ports, err := t.readPorts()
	if err != nil {
		return nil, nil, err
	}
	if _, found := slices.BinarySearch(names, nqn); !found {
		return nil, ports, nil
	}
	sub, err := t.readSubsystem(nqn, ports)
	if err != nil {
		return nil, nil, fmt.Errorf("read subsystem %s: %w", nqn, err)
	}
	return sub, ports, nil
}

func (t *Target) subsystemNames() ([]string, error) {
	names, err := t.fs.ReadDir("subsystems")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: configfs has no nvmet (module nvmet not loaded, or configfs not mounted): %w", nvmeof.ErrTargetUnavailable, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read subsystems: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

func (t *Target) readSubsystem(nqn string, ports []port) (*subsystem, error) {
	r := reader{t: t}
	dir := join("subsystems", nqn)
	sub := &subsystem{dir: dir, hostLinks: r.links(join(dir, "allowed_hosts"))}
	sub.State = nvmeof.State{
		NQN:          nqn,
		Serial:       strings.TrimRight(r.attr(join(dir, "attr_serial")), " "),
		Model:        strings.TrimRight(r.optional(join(dir, "attr_model")), " "),
		AllowAnyHost: r.attr(join(dir, "attr_allow_any_host")) != "0",
		AllowedHosts: []string{},
		Namespaces:   []nvmeof.NamespaceState{},
		Ports:        []nvmeof.Port{},
	}
	sub.passthru = r.optional(join(dir, "passthru", "enable")) == "1"
	for _, host := range sub.hostLinks {
		sub.AllowedHosts = append(sub.AllowedHosts, host)
	}
	slices.Sort(sub.AllowedHosts)
	for _, name := range r.names(join(dir, "namespaces")) {
		sub.namespaces = append(sub.namespaces, r.namespace(join(dir, "namespaces", name)))
	}
	// Within one nsid the canonical spelling first: "1" before "01".
	slices.SortFunc(sub.namespaces, func(a, b namespace) int {
		return cmp.Or(cmp.Compare(a.NSID, b.NSID), cmp.Compare(len(a.dir), len(b.dir)), cmp.Compare(a.dir, b.dir))
	})
	for _, ns := range sub.namespaces {
		sub.Namespaces = append(sub.Namespaces, ns.NamespaceState)
	}
	for _, p := range ports {
		if _, linked := p.linkOf(nqn); linked {
			sub.Ports = append(sub.Ports, p.Port)
		}
	}
	if r.err == nil && t.debug != nil {
		sub.ConnectedHosts, r.err = t.connected(nqn)
	}
	return sub, r.err
}

// connected reads the hosts of the subsystem's controllers. A controller that ends
// while it is read is none.
func (t *Target) connected(nqn string) ([]string, error) {
	entries, err := t.debug.ReadDir(nqn)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := t.debug.ReadDir("."); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return []string{}, nil
	}
	if err != nil {
		return nil, err
	}
	hosts := []string{}
	for _, name := range entries {
		if !strings.HasPrefix(name, "ctrl") {
			continue
		}
		raw, err := t.debug.ReadFile(join(nqn, name, "hostnqn"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, strings.TrimSpace(string(raw)))
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), nil
}

// readPorts reads all ports. Others may change them meanwhile, unless they are
// read inside session.share.
func (t *Target) readPorts() ([]port, error) {
	r := reader{t: t}
	var ports []port
	for _, name := range r.names("ports") {
		p, err := t.readPort(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read port %q: %w", name, err)
		}
		ports = append(ports, p)
	}
	slices.SortFunc(ports, func(a, b port) int { return cmp.Compare(a.ID, b.ID) })
	if r.err != nil {
		return nil, fmt.Errorf("read ports: %w", r.err)
	}
	return ports, nil
}

func (t *Target) readPort(name string) (port, error) {
	id, err := strconv.ParseUint(name, 0, 16)
	if err != nil {
		return port{}, err
	}
	r := reader{t: t}
	dir := join("ports", name)
	p := port{
		dir:       dir,
		links:     r.links(join(dir, "subsystems")),
		referrals: len(r.names(join(dir, "referrals"))) > 0,
		Port: nvmeof.Port{
			ID:        uint16(id),
			Transport: r.attr(join(dir, "addr_trtype")),
			Family:    r.attr(join(dir, "addr_adrfam")),
			Address:   r.attr(join(dir, "addr_traddr")),
			Service:   r.attr(join(dir, "addr_trsvcid")),
		},
	}
	return p, r.err
}

// linkOf returns the name of the link by which the port serves the subsystem.
func (p port) linkOf(nqn string) (string, bool) {
	for name, target := range p.links {
		if target == nqn {
			return name, true
		}
	}
	return "", false
}

// reader reads on until the first error, so that a whole object is read
// without a check at every attribute.
type reader struct {
	t   *Target
	err error
}

func (r *reader) attr(p string) string {
	if r.err != nil {
		return ""
	}
	raw, err := r.t.fs.ReadFile(p)
	if err != nil {
		r.err = err
		return ""
	}
	return strings.TrimSuffix(string(raw), "\n")
}

// optional reads an attribute that other kernel versions do not have.
func (r *reader) optional(p string) string {
	value := r.attr(p)
	if errors.Is(r.err, fs.ErrNotExist) {
		r.err = nil
	}
	return value
}

func (r *reader) names(p string) []string {
	if r.err != nil {
		return nil
	}
	names, err := r.t.fs.ReadDir(p)
	if err != nil {
		r.err = err
	}
	return names
}

// links reads a directory of links: the name of a link says nothing, its
// target does.
func (r *reader) links(p string) map[string]string {
	links := map[string]string{}
	for _, name := range r.names(p) {
		target, err := r.t.fs.Readlink(join(p, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			r.err = err
			return links
		}
		links[name] = path.Base(target)
	}
	return links
}

func (r *reader) namespace(dir string) namespace {
	nsid, err := strconv.ParseUint(path.Base(dir), 0, 32)
	if err != nil && r.err == nil {
		r.err = err
	}
	device := r.attr(join(dir, "device_path"))
	if device == "(null)" {
		device = "" // printed by the kernel for a namespace without a path
	}
	return namespace{dir: dir, NamespaceState: nvmeof.NamespaceState{
		Namespace: nvmeof.Namespace{
			NSID:       uint32(nsid),
			DevicePath: device,
			UUID:       identity(r.attr(join(dir, "device_uuid"))),
			NGUID:      identity(r.optional(join(dir, "device_nguid"))),
		},
		Enabled: r.attr(join(dir, "enable")) == "1",
	}}
}

// identity reads what the kernel prints for a UUID or an NGUID, both with
// hyphens; zero if it is none.
func identity(text string) (id [16]byte) {
	raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err == nil && len(raw) == len(id) {
		copy(id[:], raw)
	}
	return id
}

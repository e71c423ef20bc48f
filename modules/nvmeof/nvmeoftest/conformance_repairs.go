package nvmeoftest

import (
	"strconv"
	"testing"

	"github.com/distort-io/distort/modules/nvmeof"
)

// damage is one way in which somebody else has changed a subsystem.
type damage func(d *vandal)

// repairs: whatever is damaged, one Ensure makes it exact again.
func (s suite) repairs(t *testing.T) {
	if s.FS == nil && s.Damage == nil {
		t.Skip("this target cannot be damaged")
	}
	for name, hurt := range s.Damage {
		t.Run(name, func(t *testing.T) { s.repair(t, func(want nvmeof.Subsystem) { hurt(t, want) }) })
	}
	if s.FS == nil {
		return
	}
	other := nvmeof.DeriveUUID("conformance", "other").String()
	for name, hurt := range map[string]damage{
		"namespace is disabled": func(d *vandal) { d.write("namespaces/1/enable", "0") },
		"namespace is missing":  func(d *vandal) { d.rmdir("namespaces/1") },
		"device path is wrong":  func(d *vandal) { d.disabled(func() { d.write("namespaces/1/device_path", s.Devices[1]) }) },
		"uuid is wrong":         func(d *vandal) { d.disabled(func() { d.write("namespaces/1/device_uuid", other) }) },
		"nguid is wrong":        func(d *vandal) { d.disabled(func() { d.write("namespaces/1/device_nguid", other) }) },
		"namespace is too much": func(d *vandal) { d.mkdir("namespaces/9") },
		"enabled namespace is too much": func(d *vandal) {
			d.mkdir("namespaces/9")
			d.write("namespaces/9/device_path", s.Devices[1])
			d.write("namespaces/9/enable", "1")
		},
		"host is missing": func(d *vandal) { d.unlink("allowed_hosts/" + hostName("a")) },
		"host is too much": func(d *vandal) {
			d.mkdirRoot("hosts/" + hostName("x"))
			d.link("hosts/"+hostName("x"), "allowed_hosts/"+hostName("x"))
		},
		"host is linked under another host's name": func(d *vandal) {
			d.mkdirRoot("hosts/" + hostName("x"))
			d.unlink("allowed_hosts/" + hostName("a"))
			d.link("hosts/"+hostName("x"), "allowed_hosts/"+hostName("a"))
		},
		"any host is allowed": func(d *vandal) {
			d.unlink("allowed_hosts/" + hostName("a"))
			d.write("attr_allow_any_host", "1")
		},
		"serial is wrong": func(d *vandal) { d.write("attr_serial", "WRONG") },
		"model is wrong":  func(d *vandal) { d.write("attr_model", "WRONG") },
		"port link is missing": func(d *vandal) {
			d.check(s.FS.Remove(d.port() + "/subsystems/" + d.nqn))
		},
		"port is missing": func(d *vandal) {
			p := d.port()
			d.check(s.FS.Remove(p + "/subsystems/" + d.nqn))
			d.check(s.FS.Rmdir(p))
		},
		"port is half made": func(d *vandal) {
			p := d.port()
			d.check(s.FS.Remove(p + "/subsystems/" + d.nqn))
			d.check(s.FS.Rmdir(p))
			d.check(s.FS.Mkdir(p))
			d.check(s.FS.WriteFile(p+"/addr_trtype", []byte("rdma")))
		},
		"port has another address": func(d *vandal) {
			p := d.port()
			d.check(s.FS.Remove(p + "/subsystems/" + d.nqn))
			d.makePort(p, s.Listeners[1])
			d.check(s.FS.Symlink("subsystems/"+d.nqn, p+"/subsystems/"+d.nqn))
		},
		"port is too much": func(d *vandal) {
			d.mkdirRoot("ports/40000")
			d.makePort("ports/40000", s.Listeners[1])
			d.check(s.FS.Symlink("subsystems/"+d.nqn, "ports/40000/subsystems/"+d.nqn))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.repair(t, func(want nvmeof.Subsystem) { hurt(&vandal{t: t, s: s, nqn: want.NQN}) })
		})
	}
}

// repair damages a subsystem that is right, and expects it to be right again.
func (s suite) repair(t *testing.T, hurt func(nvmeof.Subsystem)) {
	want := s.subsystem(t, "repairs", 0)
	s.ensure(t, want)
	hurt(want)
	state, err := s.Target.Inspect(s.ctx(t), want.NQN)
	if err != nil {
		t.Fatal(err)
	}
	if len(nvmeof.Diff(want, state)) == 0 {
		t.Fatal("the damage does not show")
	}
	if report := s.ensure(t, want); report.Repairs() == 0 {
		t.Error("a repair was not reported")
	}
}

// vandal changes a subsystem behind the target's back.
type vandal struct {
	t   *testing.T
	s   suite
	nqn string
}

func (d *vandal) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatalf("damage: %v", err)
	}
}

func (d *vandal) path(p string) string   { return "subsystems/" + d.nqn + "/" + p }
func (d *vandal) write(p, value string)  { d.check(d.s.FS.WriteFile(d.path(p), []byte(value))) }
func (d *vandal) mkdir(p string)         { d.check(d.s.FS.Mkdir(d.path(p))) }
func (d *vandal) rmdir(p string)         { d.check(d.s.FS.Rmdir(d.path(p))) }
func (d *vandal) unlink(p string)        { d.check(d.s.FS.Remove(d.path(p))) }
func (d *vandal) link(target, as string) { d.check(d.s.FS.Symlink(target, d.path(as))) }
func (d *vandal) mkdirRoot(p string)     { d.check(d.s.FS.Mkdir(p)) }

func (d *vandal) disabled(change func()) {
	d.write("namespaces/1/enable", "0")
	change()
	d.write("namespaces/1/enable", "1")
}

// port returns the directory of the port that serves the subsystem.
func (d *vandal) port() string {
	state, err := d.s.Target.Inspect(d.s.ctx(d.t), d.nqn)
	d.check(err)
	return "ports/" + strconv.Itoa(int(state.Ports[0].ID))
}

func (d *vandal) makePort(dir string, l nvmeof.Listener) {
	p := nvmeof.PortOf(0, l)
	for attr, value := range map[string]string{"addr_trtype": p.Transport, "addr_adrfam": p.Family, "addr_traddr": p.Address, "addr_trsvcid": p.Service} {
		d.check(d.s.FS.WriteFile(dir+"/"+attr, []byte(value)))
	}
}

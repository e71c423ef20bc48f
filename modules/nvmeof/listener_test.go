package nvmeof_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/distort-io/distort/modules/nvmeof"
)

func TestParseListener(t *testing.T) {
	for s, rule := range map[string]string{
		"tcp://10.0.0.1:4420":          "",
		"rdma://10.0.0.1:4420":         "",
		"rdma://[fd00::1]:4421":        "",
		"tcp://127.0.0.1:1":            "",
		"tcp://[2001:db8::1]:65535":    "",
		"":                             "transport://address:port",
		"10.0.0.1:4420":                "transport://address:port",
		"tcp://10.0.0.1":               "transport://address:port",
		"tcp:10.0.0.1:4420":            "transport://address:port",
		"fc://10.0.0.1:4420":           "tcp or rdma",
		"TCP://10.0.0.1:4420":          "tcp or rdma",
		"tcp://10.0.0.1:0":             "port",
		"tcp://10.0.0.1:65536":         "port",
		"tcp://10.0.0.1:04420":         "port",
		"tcp://10.0.0.1:+4420":         "port",
		"tcp://10.0.0.1:":              "port",
		"tcp://host:4420":              "canonical",
		"tcp://10.0.0.01:4420":         "canonical",
		"tcp://[FD00::1]:4420":         "canonical",
		"tcp://[fd00:0::1]:4420":       "canonical",
		"tcp:// 10.0.0.1:4420":         "canonical",
		"tcp://fd00::1:4420":           "brackets",
		"tcp://[10.0.0.1]:4420":        "brackets",
		"tcp://[fd00::1:4420":          "closed",
		"tcp://[fd00::1%eth0]:4420":    "zone",
		"tcp://[::ffff:10.0.0.1]:4420": "mapped",
		"tcp://0.0.0.0:4420":           "wildcard",
		"tcp://[::]:4420":              "wildcard",
		"tcp://224.0.0.1:4420":         "unicast",
		"tcp://[ff02::1]:4420":         "unicast",
		"tcp://255.255.255.255:4420":   "unicast",
		"tcp://169.254.1.1:4420":       "link-local",
		"tcp://[fe80::1]:4420":         "link-local",
	} {
		t.Run(s, func(t *testing.T) {
			l, err := nvmeof.ParseListener(s)
			expectRule(t, err, "listener", s, rule)
			if rule == "" && l.String() != s {
				t.Errorf("written back as %q", l.String())
			}
		})
	}
}

func TestListenerFamily(t *testing.T) {
	for text, want := range map[string]nvmeof.Family{"10.0.0.1": nvmeof.IPv4, "fd00::1": nvmeof.IPv6} {
		l := nvmeof.Listener{Transport: nvmeof.TCP, Address: netip.MustParseAddr(text), Port: 1}
		if l.Family() != want {
			t.Errorf("%s: family %s", text, l.Family())
		}
	}
}

func TestPortIsAListenerOnlyIfWeWouldMakeIt(t *testing.T) {
	good := nvmeof.PortOf(3, mustListener("rdma://[fd00::1]:4421"))
	for name, tc := range map[string]struct {
		change func(*nvmeof.Port)
		ok     bool
	}{
		"as made":                {func(*nvmeof.Port) {}, true},
		"loop transport":         {func(p *nvmeof.Port) { p.Transport = "loop" }, false},
		"family of another kind": {func(p *nvmeof.Port) { p.Family = "ipv4" }, false},
		"no address":             {func(p *nvmeof.Port) { p.Address = "" }, false},
		"wildcard":               {func(p *nvmeof.Port) { p.Address = "::" }, false},
		"no service":             {func(p *nvmeof.Port) { p.Service = "" }, false},
		"service beyond 16 bits": {func(p *nvmeof.Port) { p.Service = "70000" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := good
			tc.change(&p)
			l, ok := p.Listener()
			if ok != tc.ok || ok && nvmeof.PortOf(3, l) != good {
				t.Errorf("listener %v, %t", l, ok)
			}
		})
	}
}

func mustListener(s string) nvmeof.Listener {
	l, err := nvmeof.ParseListener(s)
	if err != nil {
		panic(err)
	}
	return l
}

func FuzzParseListener(f *testing.F) {
	for _, s := range []string{"tcp://10.0.0.1:4420", "rdma://[fd00::1]:4421", "tcp://[::]:1", "tcp://[fe80::1%25eth0]:1", "://:", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := nvmeof.ParseListener(s)
		if err != nil {
			if !errors.Is(err, nvmeof.ErrInvalid) || l != (nvmeof.Listener{}) {
				t.Fatalf("%q: %v, %v", s, l, err)
			}
			return
		}
		if l.String() != s {
			t.Fatalf("%q is written back as %q", s, l)
		}
		if got, ok := nvmeof.PortOf(1, l).Listener(); !ok || got != l {
			t.Fatalf("%q does not survive the kernel's words: %v", s, got)
		}
		want := nvmeof.Subsystem{NQN: "nqn.2026-02.io.distort:a", Serial: "S", Listeners: []nvmeof.Listener{l}}
		if err := want.Validate(); err != nil {
			t.Fatalf("parsed, but not valid: %v", err)
		}
	})
}

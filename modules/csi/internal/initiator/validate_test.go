package initiator

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func validTarget() Target {
	return Target{
		NQN:     "nqn.2026-02.io.distort:volume-vol-0123456789abcdef0123456789abcdef",
		HostNQN: "nqn.2026-01.io.distort:host-0123456789abcdef0123456789abcdef",
		HostID:  "01234567-89ab-cdef-0123-456789abcdef",
		Portals: []Portal{{TCP, netip.MustParseAddr("10.0.0.1"), 4420}},
	}
}

// SE4: nothing that reaches the option text can add an option to it.
func TestTargetGrammar(t *testing.T) {
	number := func(n int) *int { return &n }
	for name, change := range map[string]func(*Target){
		"comma in NQN":             func(t *Target) { t.NQN += ",hostnqn=x" },
		"newline in NQN":           func(t *Target) { t.NQN += "\n" },
		"NUL in NQN":               func(t *Target) { t.NQN += "\x00" },
		"space in NQN":             func(t *Target) { t.NQN += " a" },
		"empty NQN":                func(t *Target) { t.NQN = "" },
		"NQN without date":         func(t *Target) { t.NQN = "nqn.io.distort:x" },
		"NQN of 224 bytes":         func(t *Target) { t.NQN += strings.Repeat("a", 224-len(t.NQN)) },
		"comma in host NQN":        func(t *Target) { t.HostNQN += ",x" },
		"host ID not a UUID":       func(t *Target) { t.HostID = "0123" },
		"host ID zero":             func(t *Target) { t.HostID = zeroUUID },
		"no portal":                func(t *Target) { t.Portals = nil },
		"unknown transport":        func(t *Target) { t.Portals[0].Transport = "loop" },
		"no address":               func(t *Target) { t.Portals[0].Address = netip.Addr{} },
		"unspecified address":      func(t *Target) { t.Portals[0].Address = netip.IPv6Unspecified() },
		"multicast address":        func(t *Target) { t.Portals[0].Address = netip.MustParseAddr("224.0.0.1") },
		"mapped address":           func(t *Target) { t.Portals[0].Address = netip.MustParseAddr("::ffff:10.0.0.1") },
		"comma in zone":            func(t *Target) { t.Portals[0].Address = netip.MustParseAddr("fe80::1").WithZone("e,nqn=x") },
		"port 0":                   func(t *Target) { t.Portals[0].Port = 0 },
		"ctrl-loss-tmo":            func(t *Target) { t.Params.CtrlLossTimeout = number(-2) },
		"reconnect-delay":          func(t *Target) { t.Params.ReconnectDelay = number(0) },
		"keep-alive-tmo":           func(t *Target) { t.Params.KeepAliveTimeout = number(0) },
		"fast-io-fail-tmo":         func(t *Target) { t.Params.FastIOFailTimeout = number(-2) },
		"fast fail after the loss": func(t *Target) { t.Params.FastIOFailTimeout, t.Params.CtrlLossTimeout = number(9), number(8) },
		"nr-io-queues":             func(t *Target) { t.Params.IOQueues = number(0) },
		"queue-size":               func(t *Target) { t.Params.QueueSize = number(15) },
	} {
		target := validTarget()
		if err := target.Validate(); err != nil {
			t.Fatalf("valid target refused: %v", err)
		}
		change(&target)
		if err := target.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestPortalsThatAreFine(t *testing.T) {
	for _, address := range []string{"10.0.0.1", "127.0.0.1", "::1", "fd77::10", "fe80::1%eth0"} { // BM10
		if err := (Portal{RDMA, netip.MustParseAddr(address), 4420}).Validate(); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// SE4
func FuzzNoValidTargetInjectsOptions(f *testing.F) {
	f.Add("nqn.2026-02.io.distort:volume-x", "nqn.2026-01.io.distort:host-x", "eth0")
	f.Add("nqn.2026-02.io.distort:a,b=c", "nqn.2026-01.io.distort:\n", "e,x=y")
	f.Fuzz(func(t *testing.T, nqn, host, zone string) {
		target := validTarget()
		target.NQN, target.HostNQN = nqn, host
		target.Portals[0].Address = netip.MustParseAddr("fe80::1").WithZone(zone)
		if target.Validate() != nil {
			return
		}
		text := connectOptions(target, target.Portals[0], 2)
		if n := strings.Count(text, ","); n != 8 || strings.Count(text, "=") != 9 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("option text %q", text)
		}
	})
}

func TestParseInstance(t *testing.T) {
	if n, err := parseInstance("instance=3,cntlid=1\n"); err != nil || n != 3 {
		t.Errorf("got %d, %v", n, err)
	}
	for _, bad := range []string{"", "instance=", "cntlid=1", "instance=-1", "instance=x,cntlid=1"} {
		if _, err := parseInstance(bad); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}

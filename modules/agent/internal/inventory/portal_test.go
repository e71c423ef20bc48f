package inventory_test

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/agent/internal/inventory"
)

const port = "/class/infiniband/rxe0/ports/1"

var labEth0 = interfaces{"eth0": {"10.77.0.10", "10.77.0.20", "fd77::10", "fe80::5054:ff:fe77:10"}}

func portals(s inventory.PortalScan) []string {
	var out []string
	for _, p := range s.Portals {
		out = append(out, string(p.Fabric)+" "+p.Address.String()+" "+p.Interface+" "+p.Device)
	}
	return out
}

func TestPortalsAreUsableAddressesOfActivePorts(t *testing.T) {
	r := newReader(t, unpack(t, "storage-all-bound"), func(c *inventory.Config) {
		c.Addresses, c.TCPAddresses = labEth0, []string{"10.77.0.10"}
	})
	scan := r.Portals(t.Context())
	want := []string{
		"RoCEv2 10.77.0.10 eth0 rxe0", "RoCEv2 10.77.0.20 eth0 rxe0", "RoCEv2 fd77::10 eth0 rxe0",
		"TCP 10.77.0.10 eth0 ",
	}
	if diff := cmp.Diff(want, portals(scan)); diff != "" {
		t.Errorf("portals (-want +got):\n%s", diff)
	}
	if !scan.Complete || len(scan.Problems) != 0 {
		t.Errorf("complete = %v, problems = %v", scan.Complete, scan.Problems)
	}
	first := scan.Portals[0]
	if diff := cmp.Diff(inventory.Portal{Fabric: inventory.FabricRoCEv2, Address: netip.MustParseAddr("10.77.0.10"),
		Interface: "eth0", Device: "rxe0", Port: 1, SpeedMbps: 2500, NUMANode: -1}, first,
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("portal (-want +got):\n%s", diff)
	}
}

func TestRDMAPortWithoutUseIsAProblem(t *testing.T) {
	tests := map[string]struct {
		arrange  func(t *testing.T, sys string)
		have     interfaces
		message  string
		complete bool
	}{
		"port is down": {
			arrange: func(t *testing.T, sys string) { write(t, sys+port+"/state", "1: DOWN\n") },
			have:    labEth0, message: `"1: DOWN", not ACTIVE`, complete: true,
		},
		"port is initialising": {
			arrange: func(t *testing.T, sys string) { write(t, sys+port+"/state", "2: INIT\n") },
			have:    labEth0, message: "not ACTIVE", complete: true,
		},
		"only RoCE v1": {
			arrange: func(t *testing.T, sys string) {
				for i := range 4 {
					write(t, sys+port+"/gid_attrs/types/"+strconv.Itoa(i), "IB/RoCE v1\n")
				}
			},
			have: labEth0, message: "no usable address", complete: true,
		},
		"only a link-local address": {
			arrange: func(*testing.T, string) {},
			have:    interfaces{"eth0": {"fe80::5054:ff:fe77:10"}}, message: "no usable address", complete: true,
		},
		"interface is down": {
			arrange: func(*testing.T, string) {},
			have:    interfaces{"eth0": nil}, message: "eth0 is down", complete: true,
		},
		"interface cannot be read": {
			arrange: func(*testing.T, string) {},
			have:    interfaces{}, message: "eth0",
		},
		"state cannot be read": {
			arrange: func(t *testing.T, sys string) { remove(t, sys+port+"/state") },
			have:    labEth0, message: "state cannot be read",
		},
		"unknown link layer": {
			arrange: func(t *testing.T, sys string) { write(t, sys+port+"/link_layer", "Unspecified\n") },
			have:    labEth0, message: "Unspecified", complete: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			roots := unpack(t, "storage-all-bound")
			tc.arrange(t, roots.Sys)
			scan := newReader(t, roots, func(c *inventory.Config) { c.Addresses = tc.have }).Portals(t.Context())
			if len(scan.Portals) != 0 {
				t.Errorf("portals = %v, want none", portals(scan))
			}
			var text []string
			for _, p := range scan.Problems {
				text = append(text, p.String())
			}
			if !strings.Contains(strings.Join(text, "\n"), tc.message) || !strings.Contains(strings.Join(text, "\n"), "rxe0/1") {
				t.Errorf("problems = %q; want one of rxe0/1 with %q", text, tc.message)
			}
			if scan.Complete != tc.complete {
				t.Errorf("complete = %v, want %v", scan.Complete, tc.complete)
			}
		})
	}
}

func TestGIDTableWithHolesIsReadThrough(t *testing.T) {
	roots := unpack(t, "storage-all-bound")
	// Twenty addresses were removed, then one was added behind them.
	for attr, value := range map[string]string{"gids": "0000:0000:0000:0000:0000:ffff:0a4d:001e",
		"gid_attrs/ndevs": "eth0", "gid_attrs/types": "RoCE v2"} {
		write(t, roots.Sys+port+"/"+attr+"/24", value+"\n")
	}
	scan := newReader(t, roots, func(c *inventory.Config) {
		c.Addresses = interfaces{"eth0": {"10.77.0.30"}}
	}).Portals(t.Context())
	if diff := cmp.Diff([]string{"RoCEv2 10.77.0.30 eth0 rxe0"}, portals(scan)); diff != "" {
		t.Errorf("portals (-want +got):\n%s", diff)
	}
}

// Two ports of two cards: each usable address of each is listed, with the NUMA node
// of its card, and an IPv6 link-local address of none.
func TestEveryActivePortIsListed(t *testing.T) {
	roots := unpack(t, "storage-all-bound")
	second := roots.Sys + "/class/infiniband/mlx5_1"
	for attr, value := range map[string]string{
		"ports/1/state": "4: ACTIVE", "ports/1/link_layer": "Ethernet", "ports/1/rate": "100 Gb/sec (4X EDR)", "device/numa_node": "1",
		"ports/1/gids/0": "fe80:0000:0000:0000:5054:00ff:fe77:0011", "ports/1/gids/1": "0000:0000:0000:0000:0000:ffff:0a4d:010a",
		"ports/1/gids/2": "fd77:0000:0000:0001:0000:0000:0000:0010",
		"ports/2/state":  "1: DOWN", "ports/2/link_layer": "Ethernet",
	} {
		write(t, second+"/"+attr, value+"\n")
	}
	for slot := range 3 {
		write(t, second+"/ports/1/gid_attrs/types/"+strconv.Itoa(slot), "RoCE v2\n")
		write(t, second+"/ports/1/gid_attrs/ndevs/"+strconv.Itoa(slot), "eth1\n")
	}
	scan := newReader(t, roots, func(c *inventory.Config) {
		c.Addresses = interfaces{"eth0": {"10.77.0.10"}, "eth1": {"10.77.1.10", "fd77:0:0:1::10", "fe80::5054:ff:fe77:11"}}
	}).Portals(t.Context())
	want := []string{"RoCEv2 10.77.0.10 eth0 rxe0", "RoCEv2 10.77.1.10 eth1 mlx5_1", "RoCEv2 fd77:0:0:1::10 eth1 mlx5_1"}
	if diff := cmp.Diff(want, portals(scan)); diff != "" {
		t.Fatalf("portals (-want +got):\n%s", diff)
	}
	if got := []int{scan.Portals[0].NUMANode, scan.Portals[1].NUMANode}; !cmp.Equal([]int{-1, 1}, got) {
		t.Errorf("NUMA nodes = %v", got)
	}
	if !scan.Complete || len(scan.Problems) != 1 || !strings.Contains(scan.Problems[0].String(), "mlx5_1/2") {
		t.Errorf("complete %v, problems %v: want the port that is down named", scan.Complete, scan.Problems)
	}
}

func TestInfiniBandUsesTheInterfaceOnThePort(t *testing.T) {
	roots := unpack(t, "storage-all-bound")
	write(t, roots.Sys+port+"/link_layer", "InfiniBand\n")
	write(t, roots.Sys+port+"/rate", "100 Gb/sec (4X EDR)\n")
	dev := roots.Sys + "/class/infiniband/rxe0/device"
	write(t, dev+"/net/ib0/dev_port", "0\n")
	write(t, dev+"/net/ib1/dev_port", "1\n")
	write(t, dev+"/numa_node", "1\n")
	scan := newReader(t, roots, func(c *inventory.Config) {
		c.Addresses = interfaces{"ib0": {"192.0.2.7", "fe80::1"}, "ib1": {"192.0.2.8"}}
	}).Portals(t.Context())
	if diff := cmp.Diff([]string{"InfiniBand 192.0.2.7 ib0 rxe0"}, portals(scan)); diff != "" {
		t.Fatalf("portals (-want +got):\n%s", diff)
	}
	if p := scan.Portals[0]; p.SpeedMbps != 100_000 || p.NUMANode != 1 {
		t.Errorf("speed = %d Mbit/s, NUMA node = %d", p.SpeedMbps, p.NUMANode)
	}
}

func TestTCPPortals(t *testing.T) {
	have := interfaces{"eth0": {"10.0.0.1", "fd00::1", "fe80::1"}, "eth1": {"fe80::2"}, "down": nil}
	tests := map[string]struct {
		iface    string
		addrs    []string
		want     []string
		message  string
		complete bool
	}{
		"interface":            {iface: "eth0", want: []string{"TCP 10.0.0.1 eth0 ", "TCP fd00::1 eth0 "}, complete: true},
		"node addresses":       {addrs: []string{"10.0.0.1"}, want: []string{"TCP 10.0.0.1 eth0 "}, complete: true},
		"address is elsewhere": {addrs: []string{"10.9.9.9"}, message: "no interface of this host", complete: true},
		"no usable address":    {iface: "eth1", message: "no usable address", complete: true},
		"interface is down":    {iface: "down", message: "is down", complete: true},
		"interface is missing": {iface: "eth7", message: "eth7"},
		"nothing configured":   {complete: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			roots := inventory.Roots{Sys: t.TempDir(), Proc: t.TempDir(), Dev: "/dev"}
			write(t, roots.Sys+"/class/net/eth0/speed", "25000\n")
			scan := newReader(t, roots, func(c *inventory.Config) {
				c.Addresses, c.TCPInterface, c.TCPAddresses = have, tc.iface, tc.addrs
			}).Portals(t.Context())
			if diff := cmp.Diff(tc.want, portals(scan)); diff != "" {
				t.Errorf("portals (-want +got):\n%s", diff)
			}
			for _, p := range scan.Portals {
				if p.SpeedMbps != 25000 {
					t.Errorf("speed = %d Mbit/s", p.SpeedMbps)
				}
			}
			if tc.message != "" && (len(scan.Problems) != 1 || !strings.Contains(scan.Problems[0].String(), tc.message)) {
				t.Errorf("problems = %v, want one with %q", scan.Problems, tc.message)
			}
			if scan.Complete != tc.complete {
				t.Errorf("complete = %v, want %v", scan.Complete, tc.complete)
			}
		})
	}
}

func TestNewRefusesConfigurationThatCannotWork(t *testing.T) {
	tests := map[string]func(*inventory.Config){
		"no roots":           func(c *inventory.Config) { c.Roots = inventory.Roots{} },
		"empty deny entry":   func(c *inventory.Config) { c.Deny = []string{" "} },
		"bad interface":      func(c *inventory.Config) { c.TCPInterface = "../eth0" },
		"not an address":     func(c *inventory.Config) { c.TCPAddresses = []string{"host1"} },
		"address with zone":  func(c *inventory.Config) { c.TCPAddresses = []string{"fd00::1%eth0"} },
		"loopback address":   func(c *inventory.Config) { c.TCPAddresses = []string{"127.0.0.1"} },
		"link-local address": func(c *inventory.Config) { c.TCPAddresses = []string{"fe80::1"} },
		"multicast address":  func(c *inventory.Config) { c.TCPAddresses = []string{"ff02::1"} },
		"wildcard address":   func(c *inventory.Config) { c.TCPAddresses = []string{"0.0.0.0"} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			c := inventory.Config{Roots: inventory.HostRoots()}
			change(&c)
			if _, err := inventory.New(c); err == nil {
				t.Error("New succeeded")
			}
		})
	}
}

package publishcontext

import (
	"errors"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/formatonce"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const uuid = "aaaaaaaa-0000-4000-8000-00000000000a"

func full() Context {
	return Context{
		Namespace: initiator.Identity{NQN: "nqn.2026-02.io.distort:volume-x", NSID: 1, UUID: uuid, NGUID: uuid},
		Portals: []initiator.Portal{
			{Transport: initiator.TCP, Address: netip.MustParseAddr("10.0.0.1"), Port: 4420},
			{Transport: initiator.RDMA, Address: netip.MustParseAddr("fd77::10"), Port: 4421},
		},
		HostNQN:        "nqn.2026-01.io.distort:host-0123456789abcdef0123456789abcdef",
		Attachment:     formatonce.AttachmentRef{Namespace: "distort-system", Name: "att-1", UID: uuid},
		AttachmentID:   uuid,
		FilesystemUUID: uuid,
		Zeroed:         true,
		Recorded:       formatonce.Record{Type: filesystem.XFS, UUID: uuid, FormattedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		Traceparent:    "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
		AttachedAt:     time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC),
	}
}

var equal = cmpopts.EquateComparable(netip.Addr{})

func TestEncodeAndDecodeAreInverse(t *testing.T) {
	least := full()
	least.Namespace.NGUID, least.Zeroed, least.Recorded, least.Traceparent, least.AttachedAt = "", false, formatonce.Record{}, "", time.Time{}
	for name, c := range map[string]Context{"everything": full(), "least": least} {
		m, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(m)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, got, equal); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnUnfinishedRecordDoesNotTravel(t *testing.T) {
	c := full()
	c.Recorded = formatonce.Record{Type: filesystem.Ext4, UUID: uuid, StartedAt: time.Now()}
	m, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(m)
	if err != nil || got.Recorded != (formatonce.Record{}) {
		t.Errorf("record %+v, %v", got.Recorded, err)
	}
}

// SE4 and version skew.
func TestDecodeRefuses(t *testing.T) {
	for name, change := range map[string]func(map[string]string){
		"empty":                    func(m map[string]string) { clear(m) },
		"version of the future":    func(m map[string]string) { m["version"] = "2" },
		"unknown key":              func(m map[string]string) { m["dhchap-secret"] = "x" },
		"comma in NQN":             func(m map[string]string) { m["nqn"] += ",hostnqn=x" },
		"newline in attachment ID": func(m map[string]string) { m["attachment-id"] += "\n" },
		"portal is a host name":    func(m map[string]string) { m["portals"] = "tcp://storage:4420" },
		"portal without port":      func(m map[string]string) { m["portals"] = "tcp://10.0.0.1" },
		"portal of no transport":   func(m map[string]string) { m["portals"] = "10.0.0.1:4420" },
		"portals with two blanks":  func(m map[string]string) { m["portals"] = "tcp://10.0.0.1:4420  tcp://10.0.0.2:4420" },
		"17 portals": func(m map[string]string) {
			m["portals"] = strings.TrimSpace(strings.Repeat("tcp://10.0.0.1:4420 ", 17))
		},
		"nsid in hexadecimal":    func(m map[string]string) { m["nsid"] = "0x1" },
		"nsid with a zero":       func(m map[string]string) { m["nsid"] = "01" },
		"nsid 0":                 func(m map[string]string) { m["nsid"] = "0" },
		"UUID upper case":        func(m map[string]string) { m["namespace-uuid"] = strings.ToUpper(uuid) },
		"no filesystem UUID":     func(m map[string]string) { delete(m, "filesystem-uuid") },
		"zeroed maybe":           func(m map[string]string) { m["zeroed"] = "1" },
		"half a record":          func(m map[string]string) { delete(m, "recorded-filesystem-uuid") },
		"record of unknown type": func(m map[string]string) { m["recorded-filesystem-type"] = "btrfs" },
		"attachment name is a path": func(m map[string]string) {
			m["attachment-name"] = "../x"
		},
		"traceparent":     func(m map[string]string) { m["traceparent"] = "x" },
		"time of nothing": func(m map[string]string) { m["attached-at"] = "yesterday" },
	} {
		t.Run(name, func(t *testing.T) {
			m, err := full().Encode()
			if err != nil {
				t.Fatal(err)
			}
			change(m)
			if _, err := Decode(m); !errors.Is(err, ErrMalformed) {
				t.Errorf("err = %v, want ErrMalformed", err)
			}
		})
	}
}

func TestEncodeRefusesWhatDecodeWould(t *testing.T) {
	for name, change := range map[string]func(*Context){
		"no portal":     func(c *Context) { c.Portals = nil },
		"no host":       func(c *Context) { c.HostNQN = "" },
		"no attachment": func(c *Context) { c.Attachment.UID = "" },
		"no identity":   func(c *Context) { c.Namespace.UUID = "" },
	} {
		c := full()
		change(&c)
		if _, err := c.Encode(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, err)
		}
	}
}

// SE4: whatever is accepted is exactly what Encode writes.
func FuzzDecode(f *testing.F) {
	f.Add("nqn", "nqn.2026-02.io.distort:volume-y")
	f.Add("portals", "rdma://[fe80::1%eth0]:4420")
	f.Add("recorded-filesystem-formatted-at", "2026-01-02T03:04:05Z")
	f.Add("x", "y")
	f.Fuzz(func(t *testing.T, key, value string) {
		m, err := full().Encode()
		if err != nil {
			t.Fatal(err)
		}
		m[key] = value
		c, err := Decode(m)
		if err != nil {
			return
		}
		again, err := c.Encode()
		if err != nil {
			t.Fatalf("decoded but cannot be encoded: %v", err)
		}
		second, err := Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		third, _ := second.Encode()
		if !maps.Equal(again, third) {
			t.Fatalf("%v, then %v", again, third)
		}
	})
}

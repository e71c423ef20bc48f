package inventory

import (
	"net/netip"
	"testing"
)

func FuzzParseMount(f *testing.F) {
	f.Add("27 1 254:0 / / rw,noatime shared:1 - ext4 /dev/vda rw")
	f.Add(`99 27 0:55 / /a\040b rw - btrfs /dev/nvme1n1p9 rw`)
	f.Add("- - -")
	f.Fuzz(func(t *testing.T, line string) {
		if m, err := parseMount(line); err == nil && m.point == "" {
			t.Errorf("%q gave a mount without a mount point", line)
		}
	})
}

func FuzzParseGID(f *testing.F) {
	f.Add("0000:0000:0000:0000:0000:ffff:0a4d:000a")
	f.Add("fe80::1")
	f.Fuzz(func(t *testing.T, s string) {
		if a, err := parseGID(s); err == nil && !a.IsValid() {
			t.Errorf("%q gave an invalid address", s)
		}
	})
}

// No name is a head and a path at once, and neither can leave its directory
// (fault DI2).
func FuzzBlockNames(f *testing.F) {
	for _, s := range []string{"nvme0n1", "nvme3c3n1", "nvme10c2n12", "nvme0n1p1", "nvmen1", "nvme0c0", "../nvme0n1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if headName.MatchString(s) && (pathName.MatchString(s) || controllerName.MatchString(s) || !blockName.MatchString(s)) {
			t.Errorf("%q is ambiguous", s)
		}
	})
}

func TestUsableRefusesAddressesThatReachNoOneOrEveryone(t *testing.T) {
	tests := map[string]bool{
		"10.0.0.1": true, "fd00::1": true, "2001:db8::1": true, "169.254.1.1": false, "127.0.0.1": false,
		"::1": false, "fe80::1": false, "224.0.0.1": false, "ff02::1": false, "0.0.0.0": false, "::": false,
		"255.255.255.255": false,
	}
	for s, want := range tests {
		if got := usable(netip.MustParseAddr(s)) == nil; got != want {
			t.Errorf("usable(%s) = %v, want %v", s, got, want)
		}
	}
	if usable(netip.Addr{}) == nil {
		t.Error("the zero address is usable")
	}
}

func TestParseRate(t *testing.T) {
	for s, want := range map[string]int64{
		"2.5 Gb/sec (1X SDR)": 2500, "100 Gb/sec (4X EDR)": 100_000, "": 0, "fast": 0, "-1 Gb/sec": 0, "NaN Gb/sec": 0,
	} {
		if got := parseRate(s); got != want {
			t.Errorf("parseRate(%q) = %d, want %d", s, got, want)
		}
	}
}

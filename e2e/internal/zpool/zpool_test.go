package zpool

import "testing"

func TestHasModule(t *testing.T) {
	const loaded = "spl 151552 1 zfs, Live 0x0000000000000000 (OE)\nzfsish 16384 0 - Live 0x0\n"
	for name, want := range map[string]bool{"spl": true, "zfs": false, "zfsish": true, "16384": false} {
		if got := hasModule(loaded, name); got != want {
			t.Errorf("module %q: %t, want %t", name, got, want)
		}
	}
}

package report

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestUeventsOfInterest(t *testing.T) {
	event := func(lines ...string) string { return strings.Join(lines, "\x00") + "\x00" }
	tests := map[string]struct {
		message string
		want    bool
	}{
		"controller changes": {event("change@/devices/x/nvme/nvme0", "ACTION=change", "SUBSYSTEM=nvme"), true},
		"drive is added":     {event("add@/devices/x/nvme0n1", "ACTION=add", "DEVPATH=/devices/x/nvme0n1", "SUBSYSTEM=block", "DEVTYPE=disk"), true},
		"partition is added": {event("add@/devices/x/nvme0n1p1", "ACTION=add", "DEVPATH=/devices/x/nvme0n1/nvme0n1p1", "SUBSYSTEM=block", "DEVTYPE=partition"), false},
		"drive was written":  {event("change@/devices/x/nvme0n1", "ACTION=change", "DEVPATH=/devices/x/nvme0n1", "SUBSYSTEM=block", "DEVTYPE=disk"), false},
		"another disk":       {event("add@/devices/x/sda", "ACTION=add", "DEVPATH=/devices/x/sda", "SUBSYSTEM=block", "DEVTYPE=disk"), false},
		"RDMA device":        {event("add@/devices/virtual/infiniband/rxe0", "ACTION=add", "SUBSYSTEM=infiniband"), true},
		"something else":     {event("add@/devices/x", "ACTION=add", "SUBSYSTEM=usb"), false},
		"garbage":            {"\x00\x00===", false},
	}
	for name, tc := range tests {
		if got := interesting(tc.message); got != tc.want {
			t.Errorf("%s: interesting = %v", name, got)
		}
	}
}

func TestUeventsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	u := NewUevents()
	done := make(chan error, 1)
	go func() { done <- u.Start(ctx) }()
	u.Poke()
	u.Poke()
	<-u.Changed()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the listener does not end")
	}
}

// Package recovery takes away, in the lab, what operators lose: a storage node,
// a drive, the processes of the product. Everything comes back by itself.
package recovery

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"

	"github.com/distort-io/distort/e2e/internal/driver"
	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/lab"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/prepare"
	"github.com/distort-io/distort/e2e/internal/suite"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	namespace = "e2e-recovery"
	storage   = "storage"
	file      = flow.DataDir + "/file"
	fileMiB   = 2
	// resumeTimeout bounds the time from the boot of a storage node to I/O: its
	// kubelet and its agent start, the initiator tries every ten seconds.
	resumeTimeout = 6 * time.Minute
	// shutdownLimit is what a host with mounted volumes may take to go down,
	// also when their storage does not answer.
	shutdownLimit = 60 * time.Second
)

// volume is a volume in use by a pod of the same name.
type volume struct{ name, class, checksum, handle string }

// inUse makes a volume of a transport and a pod with a file on it.
func inUse(t *testing.T, f *flow.Flow, name, transport string) volume {
	t.Helper()
	v := volume{name: name, class: "e2e-recovery-" + transport}
	suite.Must(t, f.CreateClass(t.Context(), flow.Class{Name: v.class, Parameters: map[string]string{"transport": transport}}))
	suite.Must(t, f.CreateClaim(t.Context(), flow.Claim{Name: name, Class: v.class, Size: "256Mi"}))
	bound, err := f.WaitBound(t.Context(), name, time.Now())
	suite.Must(t, err)
	v.handle = bound.Handle
	v.start(t, f)
	v.checksum, err = f.WriteFile(t.Context(), name, file, fileMiB)
	suite.Must(t, err)
	return v
}

func (v volume) start(t *testing.T, f *flow.Flow) {
	t.Helper()
	_, err := f.StartPod(t.Context(), flow.Pod{Name: v.name, Image: prepare.WorkloadImage, Claim: v.name, Node: layout.Consumers()[0]})
	suite.Must(t, err)
}

// check reads the volume's file from the device.
func (v volume) check(t *testing.T, f *flow.Flow) {
	t.Helper()
	suite.Must(t, f.DropCaches(t.Context(), layout.Consumers()[0]))
	got, err := f.Checksum(t.Context(), v.name, file)
	suite.Must(t, err)
	if got != v.checksum {
		t.Errorf("%s: checksum is %s, was %s", v.name, got, v.checksum)
	}
}

func (v volume) remove(t *testing.T, f *flow.Flow) {
	t.Helper()
	suite.Must(t, f.DeletePod(t.Context(), v.name))
	suite.Must(t, f.DeleteClaim(t.Context(), v.name))
	suite.Must(t, f.DeleteClass(t.Context(), v.class))
}

const progress = flow.DataDir + "/progress"

// writeForEver counts in a file of the pod, each number forced to the device
// before the next.
func (v volume) writeForEver(t *testing.T, f *flow.Flow) {
	t.Helper()
	script := fmt.Sprintf("(i=0; while :; do i=$((i+1)); echo $i | dd of=%s conv=fsync,notrunc 2>/dev/null && echo $i >/tmp/done; done) >/dev/null 2>&1 &", progress)
	_, err := f.Exec(t.Context(), v.name, "sh", "-c", script)
	suite.Must(t, err)
}

// written returns the last number that is on the device for certain.
func (v volume) written(ctx context.Context, f *flow.Flow) (int, error) {
	out, err := f.Exec(ctx, v.name, "cat", "/tmp/done")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(out))
}

// waitWritten waits until the writer is past a number.
func (v volume) waitWritten(t *testing.T, f *flow.Flow, past int, timeout time.Duration) int {
	t.Helper()
	last := 0
	suite.Must(t, flow.Eventually(t.Context(), v.name+" goes on writing", timeout, func(ctx context.Context) (string, error) {
		// A pod whose node has lost its storage may not answer for a while.
		got, err := v.written(ctx, f)
		if err == nil && got > past {
			last = got
			return "", nil
		}
		return fmt.Sprintf("wrote %d, want more than %d (%v)", got, past, err), nil
	}))
	return last
}

// waitUnwell waits until the node's driver says that the volume is unreachable.
func (v volume) waitUnwell(t *testing.T, l *lab.Lab) {
	t.Helper()
	node := layout.Consumers()[0]
	guest := suite.Guest(t, l, node)
	suite.Must(t, flow.Eventually(t.Context(), v.name+" is unreachable", time.Minute, func(ctx context.Context) (string, error) {
		found, err := driver.Health(ctx, guest, node, v.handle)
		if err != nil {
			return "", err
		}
		for _, status := range found {
			if status.GetStatus() == csi.VolumeHealthErrorType_INACCESSIBLE {
				t.Logf("%s: %s: %s", v.name, status.GetReason(), status.GetMessage())
				return "", nil
			}
		}
		return fmt.Sprint(found), nil
	}))
}

// Known fault RR8: after the restart of the target each volume is written, and read
// back as it was written.
func TestIOResumesWhenTheStorageNodeIsBack(t *testing.T) {
	l, f, done := open(t)
	defer done()
	volumes := []volume{inUse(t, f, "reboot-tcp", "tcp"), inUse(t, f, "reboot-rdma", "rdma")}
	for _, v := range volumes {
		v.writeForEver(t, f)
		v.waitWritten(t, f, 1, time.Minute)
	}
	suite.Must(t, l.PowerOff(t.Context(), storage))
	before := make([]int, len(volumes))
	for i, v := range volumes {
		var err error
		before[i], err = v.written(t.Context(), f)
		suite.Must(t, err)
		v.waitUnwell(t, l)
	}
	suite.Must(t, l.PowerOn(t.Context(), storage))
	booted := time.Now()
	for i, v := range volumes {
		// One write may have been on its way and be counted late.
		now := v.waitWritten(t, f, before[i]+1, resumeTimeout)
		t.Logf("%s: wrote %d before the storage node lost power, %d %s after its boot", v.name, before[i], now, time.Since(booted).Round(time.Second))
		v.check(t, f)
	}
	for _, v := range volumes {
		v.remove(t, f)
	}
}

// The storage is gone first: a host that waited for it would never go down.
func TestAHostWithMountedVolumesGoesDownAndComesBack(t *testing.T) {
	l, f, done := open(t)
	defer done()
	volumes := []volume{inUse(t, f, "host-tcp", "tcp"), inUse(t, f, "host-rdma", "rdma")}
	for _, v := range volumes {
		v.writeForEver(t, f)
		v.waitWritten(t, f, 1, time.Minute)
	}
	host := layout.Consumers()[0]
	suite.Must(t, l.PowerOff(t.Context(), storage))
	took, err := l.Shutdown(t.Context(), host, shutdownLimit)
	suite.Must(t, err)
	t.Logf("%s with two volumes mounted, their storage away, went down in %s", host, took.Round(time.Millisecond))

	suite.Must(t, l.PowerOn(t.Context(), storage))
	suite.Must(t, l.PowerOn(t.Context(), host))
	for _, v := range volumes {
		suite.Must(t, f.WaitRestarted(t.Context(), v.name, resumeTimeout))
		v.check(t, f)
		v.remove(t, f)
	}
}

func TestDriveIsPulledAndComesBack(t *testing.T) {
	l, f, done := open(t)
	defer done()
	v := inUse(t, f, "pulled", "tcp")
	suite.Must(t, f.DeletePod(t.Context(), v.name))
	bound, err := f.WaitBound(t.Context(), v.name, time.Now())
	suite.Must(t, err)
	serial := bound.Partition.Spec.ParentDeviceSerialNumber

	suite.Must(t, l.Unplug(storage, serial))
	device, err := f.DeviceName(t.Context(), serial)
	suite.Must(t, err)
	message, err := f.WaitDevice(t.Context(), device, v1alpha1.ConditionHardwareAvailable, v1alpha1.ReasonNotFound)
	suite.Must(t, err)
	t.Log(message)
	claimed, err := f.Device(t.Context(), device)
	suite.Must(t, err)
	if claimed.Status.ClaimRef == nil {
		t.Error("a drive that is gone lost its claim")
	}

	suite.Must(t, l.Plug(storage, serial))
	_, err = f.WaitDevice(t.Context(), device, v1alpha1.ConditionHardwareAvailable, v1alpha1.ReasonDiscovered)
	suite.Must(t, err)
	v.start(t, f)
	v.check(t, f)
	v.remove(t, f)
}

func TestNothingIsLostWhenAgentAndManagerAreKilled(t *testing.T) {
	_, f, done := open(t)
	defer done()
	const count, class = 20, "e2e-recovery-kill"
	suite.Must(t, f.CreateClass(t.Context(), flow.Class{Name: class, Parameters: map[string]string{"transport": "tcp"}}))
	for i := range count {
		suite.Must(t, f.CreateClaim(t.Context(), flow.Claim{Name: fmt.Sprintf("many-%d", i), Class: class, Size: "64Mi"}))
		if i%7 == 3 {
			for _, program := range []string{"distort-agent", "distort-manager"} {
				suite.Must(t, f.Kill(t.Context(), program))
				t.Logf("after %d claims: killed %s", i+1, program)
			}
		}
	}
	handles := map[string]string{}
	for i := range count {
		name := fmt.Sprintf("many-%d", i)
		bound, err := f.WaitBound(t.Context(), name, time.Now())
		suite.Must(t, err)
		uuid := bound.Partition.Status.Backend.PartitionUUID
		if other := handles[uuid]; other != "" {
			t.Errorf("claims %s and %s got the same partition %s", name, other, uuid)
		}
		handles[uuid] = name
	}
	var deletes errgroup.Group
	for i := range count {
		deletes.Go(func() error { return f.DeleteClaim(t.Context(), fmt.Sprintf("many-%d", i)) })
	}
	suite.Must(t, deletes.Wait())
	suite.Must(t, f.DeleteClass(t.Context(), class))
}

// open claims all drives; done releases them and proves that nothing is left.
func open(t *testing.T) (l *lab.Lab, f *flow.Flow, done func()) {
	t.Helper()
	l = suite.Open(t)
	f = suite.Flow(t, l, namespace)
	suite.Must(t, f.ClaimDrives(t.Context(), layout.Drives()))
	return l, f, func() {
		if t.Failed() {
			return // what is left helps to see why
		}
		suite.Must(t, f.ReleaseDrives(t.Context(), layout.Drives()))
		_, err := f.NothingLeft(t.Context())
		suite.Must(t, err)
	}
}

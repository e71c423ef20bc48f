// Package volumes tests in the lab what a claim may ask for beside the main job:
// raw devices, several hosts, connection parameters, room to grow. It also tests
// that volumes in use outlive the driver's processes.
package volumes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/lab"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/prepare"
	"github.com/distort-io/distort/e2e/internal/suite"
)

const namespace = "e2e-volumes"

// TestVolumes runs its parts on one drive, which is released at the end.
func TestVolumes(t *testing.T) {
	l := suite.Open(t)
	f := suite.Flow(t, l, namespace)
	drives := layout.Drives()[:1]
	suite.Must(t, f.ClaimDrives(t.Context(), drives))
	for _, part := range []struct {
		name string
		run  func(*testing.T, *lab.Lab, *flow.Flow)
	}{
		{"two hosts use one raw device", sharedDevice},
		{"connection parameters over TCP are what the class asks for", connectionParameters("tcp")},
		{"connection parameters over RDMA are what the class asks for", connectionParameters("rdma")},
		{"a volume in use outlives driver and kubelet", processesKilled},
		{"filesystem and mount are what the class asks for", filesystemParameters},
		{"a volume's health is what the kernel says", health},
		{"a target that answers nothing holds up no call", unanswered},
		{"a node takes as many volumes as the chart says", maxVolumes},
		{"growth past what is free changes nothing", growthRefused},
		{"a volume that no pod uses grows at its next use", grownOffline},
		{"a raw device grows under its pod", rawDeviceGrown},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, l, f) })
	}
	if t.Failed() {
		return // what is left helps to see why
	}
	suite.Must(t, f.ReleaseDrives(t.Context(), drives))
	_, err := f.NothingLeft(t.Context())
	suite.Must(t, err)
}

// provision makes a class and a claim of the same name.
func provision(t *testing.T, f *flow.Flow, parameters map[string]string, claim flow.Claim, mountOptions ...string) flow.Bound {
	t.Helper()
	claim.Class = "e2e-volumes-" + claim.Name
	suite.Must(t, f.CreateClass(t.Context(), flow.Class{Name: claim.Class, Parameters: parameters, MountOptions: mountOptions}))
	suite.Must(t, f.CreateClaim(t.Context(), claim))
	bound, err := f.WaitBound(t.Context(), claim.Name, time.Now())
	suite.Must(t, err)
	return bound
}

// remove deletes pods, the claim and its class.
func remove(t *testing.T, f *flow.Flow, claim string, pods ...string) {
	t.Helper()
	for _, pod := range pods {
		suite.Must(t, f.DeletePod(t.Context(), pod))
	}
	suite.Must(t, f.DeleteClaim(t.Context(), claim))
	suite.Must(t, f.DeleteClass(t.Context(), "e2e-volumes-"+claim))
}

func start(t *testing.T, f *flow.Flow, pod flow.Pod) {
	t.Helper()
	pod.Image = prepare.WorkloadImage
	_, err := f.StartPod(t.Context(), pod)
	suite.Must(t, err)
}

// Each host sees what the other wrote. Neither has a cache of the device.
func sharedDevice(t *testing.T, _ *lab.Lab, f *flow.Flow) {
	const name, block = "shared", 4096
	provision(t, f, map[string]string{"transport": "tcp", "allow-multi-writer": "true"},
		flow.Claim{Name: name, Size: "64Mi", Block: true, AccessMode: corev1.ReadWriteMany})
	pods := []string{"shared-1", "shared-2"}
	for i, node := range layout.Consumers() {
		start(t, f, flow.Pod{Name: pods[i], Claim: name, Node: node, Block: true})
	}
	for i, writer := range pods {
		text := fmt.Sprintf("%-*s", block, "written by "+writer)
		_, err := f.Exec(t.Context(), writer, "sh", "-c", fmt.Sprintf("printf %%s '%s' | dd of=%s bs=%d seek=%d iflag=fullblock oflag=direct conv=fsync,notrunc 2>&1", text, flow.DevicePath, block, i))
		suite.Must(t, err)
	}
	for i, writer := range pods {
		reader := pods[1-i]
		got, err := f.Exec(t.Context(), reader, "sh", "-c", fmt.Sprintf("dd if=%s bs=%d skip=%d count=1 iflag=direct 2>/dev/null", flow.DevicePath, block, i))
		suite.Must(t, err)
		if want := "written by " + writer; strings.TrimSpace(got) != want {
			t.Errorf("%s reads %q, want %q", reader, strings.TrimSpace(got), want)
		}
	}
	remove(t, f, name, pods...)
}

func connectionParameters(transport string) func(*testing.T, *lab.Lab, *flow.Flow) {
	return func(t *testing.T, l *lab.Lab, f *flow.Flow) {
		name, node := "parameters-"+transport, layout.Consumers()[0]
		bound := provision(t, f, map[string]string{
			"transport": transport, "ctrl-loss-tmo": "600", "reconnect-delay": "5", "fast-io-fail-tmo": "30",
			"keep-alive-tmo": "7", "nr-io-queues": "1", "queue-size": "32",
		}, flow.Claim{Name: name, Size: "64Mi"})
		start(t, f, flow.Pod{Name: name, Claim: name, Node: node})
		host := suite.Guest(t, l, node)
		controller := controllerOf(t, host, bound.Partition.Status.NQN)
		for attribute, want := range map[string]string{
			"transport": transport, "state": "live", "ctrl_loss_tmo": "600", "reconnect_delay": "5", "fast_io_fail_tmo": "30", "kato": "7",
			"queue_count": "2", // the admin queue counts
			"sqsize":      "31",
		} {
			got, err := host.Output(t.Context(), "cat", controller+"/"+attribute)
			suite.Must(t, err)
			if strings.TrimSpace(got) != want {
				t.Errorf("%s of the controller is %q, want %q", attribute, strings.TrimSpace(got), want)
			}
		}
		remove(t, f, name, name)
	}
}

// controllerOf returns the directory in sysfs of a host's only controller of a
// subsystem.
func controllerOf(t *testing.T, host *guestexec.Client, nqn string) string {
	t.Helper()
	const script = `for c in /sys/class/nvme/*; do [ "$(cat $c/subsysnqn)" = "$0" ] && echo $c; done; true`
	out, err := host.Output(t.Context(), "sh", "-c", script, nqn)
	suite.Must(t, err)
	found := strings.Fields(out)
	if len(found) != 1 {
		t.Fatalf("controllers of %s are %v, want one", nqn, found)
	}
	return found[0]
}

// The driver has no memory but sysfs, its records and the mount table. A second
// pod has it publish what an earlier process staged.
func processesKilled(t *testing.T, _ *lab.Lab, f *flow.Flow) {
	const name, second, file = "outlives", "outlives-2", flow.DataDir + "/file"
	node := layout.Consumers()[0]
	provision(t, f, map[string]string{"transport": "rdma"}, flow.Claim{Name: name, Size: "64Mi"})
	start(t, f, flow.Pod{Name: name, Claim: name, Node: node})
	for _, program := range []string{"distort-csi", "kubelet"} {
		suite.Must(t, f.Kill(t.Context(), program))
	}
	start(t, f, flow.Pod{Name: second, Claim: name, Node: node})
	want, err := f.WriteFile(t.Context(), name, file, 2)
	suite.Must(t, err)
	suite.Must(t, f.DropCaches(t.Context(), node))
	got, err := f.Checksum(t.Context(), second, file)
	suite.Must(t, err)
	if got != want {
		t.Errorf("checksum is %s, was %s", got, want)
	}
	remove(t, f, name, name, second)
}

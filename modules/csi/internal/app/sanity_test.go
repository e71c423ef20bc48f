package app_test

import (
	"cmp"
	"flag"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/app"
	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/initiator/initiatortest"
)

// canary is in every secret that csi-sanity sends.
const canary = "canary-c0ffee"

// envSanityBackend is the target-backend of the volumes that TestSanity makes.
const envSanityBackend = "TEST_SANITY_TARGET_BACKEND"

// TestSanityOfPools runs TestSanity with volumes of pools, in a process of its own:
// a suite of csi-sanity runs once in a process.
func TestSanityOfPools(t *testing.T) {
	if os.Getenv(envSanityBackend) != "" {
		t.Skip("this is that process")
	}
	self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSanity$", "-test.count=1")
	self.Env = append(os.Environ(), envSanityBackend+"=zfs")
	if out, err := self.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestSanity runs csi-sanity against the whole program on its socket: a real
// API server with a stub for manager and agent, and a host in memory whose
// kernel reaches what the stub exports.
func TestSanity(t *testing.T) {
	backend := cmp.Or(os.Getenv(envSanityBackend), "kernel")
	const node, most = "sanity-node", 3
	labelled(t, node, "rack-1")
	server.Consumer(t, node, most)
	o := options(t, app.ModeAll, node)
	o.MaxVolumes = most
	o.DefaultNetworkDomain = "rack-1" // csi-sanity asks for volumes where its node is
	h := newHost(t)
	server.Play(t, o.Namespace, h.targets(backend == "zfs"))
	_, logged := start(t, o, h)

	dir := filepath.Dir(strings.TrimPrefix(o.Endpoint, "unix://"))
	config := sanity.NewTestConfig()
	config.Address = o.Endpoint
	config.TargetPath = filepath.Join(dir, "mount")
	config.StagingPath = filepath.Join(dir, "staging")
	config.TestVolumeParameters = map[string]string{"target-backend": backend, "transport": "tcp"}
	if backend == "zfs" {
		config.TestVolumeMutableParameters = map[string]string{"compression": "zstd"}
	}
	config.TestNodeVolumeAttachLimit = true
	config.SecretsFile = secrets(t)

	if backend == "kernel" {
		// The capabilities are those of pools.
		if err := flag.Set("ginkgo.skip", onlyPools); err != nil {
			t.Fatal(err)
		}
	}
	skipped := map[string]bool{}
	ginkgo.ReportAfterSuite("what was skipped", func(r ginkgo.Report) {
		for _, s := range r.SpecReports {
			if s.State.Is(types.SpecStateSkipped|types.SpecStatePending) && (backend != "kernel" || !poolSpecs.MatchString(s.FullText())) {
				skipped[s.FullText()] = true
			}
		}
	})
	sanity.Test(t, config)

	want := map[string]bool{}
	for _, specs := range notOffered {
		for _, s := range specs {
			if backend != "kernel" || !poolSpecs.MatchString(s) {
				want[s] = true
			}
		}
	}
	if diff := gocmp.Diff(want, skipped); diff != "" {
		t.Errorf("skipped specs (-want +got):\n%s", diff)
	}
	h.wantNothing(t, o.Namespace)
	if text := logged.String(); strings.Contains(text, canary) {
		t.Error("a secret was logged (SE7)")
	} else if !strings.Contains(text, `"method":"NodeStageVolume"`) {
		t.Error("the log lacks calls, so it proves nothing about secrets")
	}
}

// targets is the storage side of the host's fabric, which has pools or drives.
func (h *host) targets(pools bool) controlplanetest.Behaviour {
	admitted := map[string][]string{} // host NQNs by volume; the stub has one worker
	export := func(v v1alpha1.Slice) error {
		uid := string(v.GetUID())
		return h.kernel.Export(initiatortest.Volume{
			NQN: v.GetNQN(), NSID: identity.NSID, UUID: identity.NamespaceUUID(uid), NGUID: identity.NamespaceNGUID(uid), Size: v.GetActualSize(),
			Portals:      []initiator.Portal{{Transport: initiator.TCP, Address: netip.MustParseAddr("10.0.0.1"), Port: 4420}},
			AllowedHosts: admitted[v.GetNQN()],
		})
	}
	return controlplanetest.Behaviour{
		Pools:      pools,
		Exported:   export,
		Unexported: func(v v1alpha1.Slice) error { return h.kernel.Unexport(v.GetNQN()) },
		Granted: func(v v1alpha1.Slice, a *v1alpha1.NVMeVolumeAttachment) error {
			admitted[v.GetNQN()] = []string{a.Spec.HostNQN}
			return export(v)
		},
		Revoked: func(v v1alpha1.Slice, _ *v1alpha1.NVMeVolumeAttachment) error {
			delete(admitted, v.GetNQN())
			return export(v)
		},
	}
}

// wantNothing checks that everything that was made is gone.
func (h *host) wantNothing(t *testing.T, namespace string) {
	t.Helper()
	for _, list := range []client.ObjectList{&v1alpha1.NVMePartitionList{}, &v1alpha1.VolumeList{}, &v1alpha1.SnapshotList{}, &v1alpha1.NVMeVolumeAttachmentList{}} {
		if err := server.Client().List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		switch l := list.(type) {
		case *v1alpha1.NVMePartitionList:
			if len(l.Items) > 0 {
				t.Errorf("partitions left: %d", len(l.Items))
			}
		case *v1alpha1.VolumeList:
			if len(l.Items) > 0 {
				t.Errorf("volumes left: %d", len(l.Items))
			}
		case *v1alpha1.SnapshotList:
			if len(l.Items) > 0 {
				t.Errorf("snapshots left: %d", len(l.Items))
			}
		case *v1alpha1.NVMeVolumeAttachmentList:
			if len(l.Items) > 0 {
				t.Errorf("attachments left: %d", len(l.Items))
			}
		}
	}
	if m := h.filesystems.Mounts(); len(m) > 0 {
		t.Errorf("mounts left: %v", m)
	}
	controllers, err := filepath.Glob(filepath.Join(h.kernel.Sysfs(), "class", "nvme", "*"))
	if err != nil || len(controllers) > 0 {
		t.Errorf("controllers left: %v, %v", controllers, err)
	}
}

// secrets is a file with a canary in every secret.
func secrets(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, key := range []string{
		"CreateVolumeSecret", "DeleteVolumeSecret", "ControllerPublishVolumeSecret", "ControllerUnpublishVolumeSecret",
		"ControllerValidateVolumeCapabilitiesSecret", "ControllerExpandVolumeSecret", "ControllerModifyVolumeSecret", "NodeStageVolumeSecret", "NodePublishVolumeSecret",
	} {
		text.WriteString(key + ":\n  key: " + canary + "\n")
	}
	path := filepath.Join(t.TempDir(), "secrets.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// onlyPools are the specs about snapshots, clones and changes, which partitions do not
// have.
const onlyPools = `should modify a volume created with|\b(Create|Delete|Get|List)Snapshots? \[|existing source volume|volume source volume is not found|existing source snapshot|volume source snapshot is not found`

var poolSpecs = regexp.MustCompile(onlyPools)

// notOffered lists every spec that csi-sanity skips, by the reason.
var notOffered = map[string][]string{
	"group snapshots are not offered": {
		"GroupController Service [GroupController Server] GroupControllerGetCapabilities should return appropriate capabilities",
		"GroupController Service [GroupController VolumeGroupSnapshots] CreateVolumeGroupSnapshot should fail when no name is provided",
		"GroupController Service [GroupController VolumeGroupSnapshots] DeleteVolumeGroupSnapshot should fail when no volume id is provided",
		"GroupController Service [GroupController VolumeGroupSnapshots] DeleteVolumeGroupSnapshot should succeed when an invalid volume id is used",
		"GroupController Service [GroupController VolumeGroupSnapshots] GetVolumeGroupSnapshot should fail when an invalid volume id is used",
		"GroupController Service [GroupController VolumeGroupSnapshots] GetVolumeGroupSnapshot should fail when no volume id is provided",
	},
	"SNAPSHOT_ACCESSIBILITY_CONSTRAINTS is not offered: a snapshot is where its volume is": {
		"CreateSnapshot [Controller Server] should succeed when creating a snapshot with accessibility requirements",
	},
	"csi-sanity itself leaves it out (csi-test#223); TestTokensSurviveWhatComesAndGoes has it": {
		"Controller Service [Controller Server] ListVolumes pagination should detect volumes added between pages and accept tokens when the last volume from a page is deleted",
	},
	"PUBLISH_READONLY is not offered: nvmet cannot narrow the access of one host": {
		"Controller Service [Controller Server] ControllerPublishVolume should fail when the volume is already published but is incompatible",
	},
}

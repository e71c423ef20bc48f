package fence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/fenceio"
	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/lab"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/repo"
	"github.com/distort-io/distort/e2e/internal/suite"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	storage = "storage"
	program = "/run/lab/fenceio"

	// attachTimeout is longer than another replica of a sidecar waits for a leader
	// that was moved away.
	attachTimeout = 3 * time.Minute
	goneTimeout   = time.Minute
	// refuseTimeout bounds the time in which a host that lost its connection learns
	// that it is not wanted: one try over RDMA takes some ten seconds.
	refuseTimeout = 2 * time.Minute
	// powerTimeout bounds what waits for a guest that boots, or for Kubernetes to see
	// that one is off.
	powerTimeout = 8 * time.Minute
	// ownLimit ends a writer that nobody stops.
	ownLimit = 15 * time.Minute
)

// open prepares one drive and fenceio in all guests; done gives the drive back and
// proves that nothing is left.
func open(t *testing.T) (l *lab.Lab, f *flow.Flow, guests map[string]*guestexec.Client, done func()) {
	t.Helper()
	l = suite.Open(t)
	f = suite.Flow(t, l, namespace)
	guests = map[string]*guestexec.Client{}
	for _, node := range layout.Nodes() {
		guests[node.Name] = suite.Guest(t, l, node.Name)
	}
	install(t, guests)
	drives := layout.Drives()[:1]
	suite.Must(t, f.ClaimDrives(t.Context(), drives))
	return l, f, guests, func() {
		if t.Failed() {
			return // what is left helps to see why
		}
		suite.Must(t, f.ReleaseDrives(t.Context(), drives))
		_, err := f.NothingLeft(t.Context())
		suite.Must(t, err)
	}
}

// stage is one volume and those who write to it.
type stage struct {
	t      *testing.T
	name   string // of the claim
	flow   *flow.Flow
	guests map[string]*guestexec.Client
	bound  flow.Bound
	portal v1alpha1.Portal
	device string // of the storage node
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// install builds the program and copies it into the guests, which lose it with
// their power.
func install(t *testing.T, guests map[string]*guestexec.Client) {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "fenceio")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, "./cmd/fenceio")
	cmd.Dir = filepath.Join(root, "e2e")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build fenceio: %v\n%s", err, out)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, guest := range guests {
		code, err := guest.Run(t.Context(), guestexec.Request{Args: []string{"tee", program}}, guestexec.Streams{In: bytes.NewReader(content)})
		if err != nil || code != 0 {
			t.Fatalf("copy fenceio into guest %s: exit code %d, %v", name, code, err)
		}
		if _, err := guest.Output(t.Context(), "chmod", "755", program); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs fenceio in a guest. It has what CPU the others leave: a writer without
// pause would starve the pods of an emulated node, the driver's among them.
func (s *stage) run(ctx context.Context, guest string, args ...string) (string, error) {
	out, err := s.guests[guest].Output(ctx, append([]string{"nice", "-n", "19", program}, args...)...)
	return strings.TrimSpace(out), err
}

// attach does what Kubernetes does before a pod may start on the node.
func (s *stage) attach(ctx context.Context, node string) {
	s.t.Helper()
	va := s.attachment(node)
	s.must(client.IgnoreAlreadyExists(s.flow.Client().Create(ctx, va)))
	s.must(flow.Eventually(ctx, "the volume is attached to "+node, attachTimeout, func(ctx context.Context) (string, error) {
		if err := s.flow.Client().Get(ctx, client.ObjectKeyFromObject(va), va); err != nil {
			return "", err
		}
		if e := va.Status.AttachError; e != nil && !va.Status.Attached {
			return e.Message, nil
		}
		if !va.Status.Attached {
			return "no answer yet", nil
		}
		return "", nil
	}))
}

// attachIsRefused asks for an attachment and waits for the refusal.
func (s *stage) attachIsRefused(ctx context.Context, node, because string) {
	s.t.Helper()
	va := s.attachment(node)
	s.must(s.flow.Client().Create(ctx, va))
	s.must(flow.Eventually(ctx, "the volume is not attached to "+node, attachTimeout, func(ctx context.Context) (string, error) {
		if err := s.flow.Client().Get(ctx, client.ObjectKeyFromObject(va), va); err != nil {
			return "", err
		}
		switch e := va.Status.AttachError; {
		case va.Status.Attached:
			return "", fmt.Errorf("it was attached to %s", node)
		case e == nil:
			return "no answer yet", nil
		case !strings.Contains(e.Message, because):
			return e.Message, nil
		}
		return "", nil
	}))
}

// detach does what Kubernetes does for a node that does not answer: it does not
// ask the node.
func (s *stage) detach(ctx context.Context, node string) {
	s.t.Helper()
	s.askDetach(ctx, node)
	s.waitDetached(ctx, node, attachTimeout)
}

func (s *stage) askDetach(ctx context.Context, node string) {
	s.t.Helper()
	s.must(client.IgnoreNotFound(s.flow.Client().Delete(ctx, s.attachment(node))))
}

func (s *stage) waitDetached(ctx context.Context, node string, timeout time.Duration) {
	s.t.Helper()
	va := s.attachment(node)
	s.must(flow.Eventually(ctx, "the volume is detached from "+node, timeout, func(ctx context.Context) (string, error) {
		err := s.flow.Client().Get(ctx, client.ObjectKeyFromObject(va), va)
		switch {
		case apierrors.IsNotFound(err):
			return "", nil
		case err != nil:
			return "", err
		case va.Status.DetachError != nil:
			return va.Status.DetachError.Message, nil
		}
		return "no answer yet", nil
	}))
}

func (s *stage) attachment(node string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-" + s.bound.Partition.Name + "-" + node},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: v1alpha1.DriverName, NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &s.bound.Volume},
		},
	}
}

// held is the product's own object for an attachment.
func (s *stage) held(ctx context.Context, node string) *v1alpha1.NVMeVolumeAttachment {
	s.t.Helper()
	list := &v1alpha1.NVMeVolumeAttachmentList{}
	s.must(s.flow.Client().List(ctx, list, client.InNamespace(v1alpha1.DefaultNamespace)))
	for i, a := range list.Items {
		if a.Spec.VolumeRef.UID == s.bound.Partition.UID && a.Spec.NodeID == node {
			return &list.Items[i]
		}
	}
	s.t.Fatalf("no NVMeVolumeAttachment of %s to %s", s.bound.Partition.Name, node)
	return nil
}

// wantEvidence waits for the Event on the volume that keeps the evidence of an
// attachment that is gone, and checks that it is the only one.
func (s *stage) wantEvidence(ctx context.Context, of *v1alpha1.NVMeVolumeAttachment) {
	s.t.Helper()
	p := s.bound.Partition
	var notes []string
	s.must(flow.Eventually(ctx, "an Event has the evidence of attachment "+of.Spec.AttachmentID, goneTimeout, func(ctx context.Context) (string, error) {
		events := &corev1.EventList{}
		err := s.flow.Client().List(ctx, events, client.InNamespace(p.Namespace),
			client.MatchingFields{"involvedObject.kind": string(v1alpha1.KindNVMePartition), "involvedObject.name": p.Name})
		if err != nil {
			return "", err
		}
		notes = nil
		for _, e := range events.Items {
			if e.Reason == v1alpha1.ReasonRevoked && strings.Contains(e.Message, of.Spec.AttachmentID) {
				notes = append(notes, e.Message)
			}
		}
		if len(notes) == 0 {
			return fmt.Sprintf("none among %d", len(events.Items)), nil
		}
		return "", nil
	}))
	if len(notes) != 1 {
		s.t.Errorf("%d Events about the end of attachment %s: %q", len(notes), of.Spec.AttachmentID, notes)
	}
	for _, part := range []string{"Node " + of.Spec.NodeID + " was fenced", storage + " saw in ", of.Spec.HostNQN} {
		if !strings.Contains(notes[0], part) {
			s.t.Errorf("the evidence does not say %q: %s", part, notes[0])
		}
	}
}

// connect connects a host, and returns its device.
func (s *stage) connect(ctx context.Context, node string) (string, error) {
	return s.run(ctx, node, "connect", s.bound.Partition.Status.NQN, identity.HostNQN(node), identity.HostID(node),
		string(s.portal.Transport), s.portal.Address, strconv.Itoa(int(s.portal.Port)))
}

// disconnect ends all that a host has of the volume.
func (s *stage) disconnect(ctx context.Context, node string) {
	s.t.Helper()
	nqn := s.bound.Partition.Status.NQN
	s.must(flow.Eventually(ctx, node+" has no controller of the volume", goneTimeout, func(ctx context.Context) (string, error) {
		if _, err := s.guests[node].Output(ctx, "nvme", "disconnect", "-n", nqn); err != nil {
			return "", err
		}
		out, err := s.guests[node].Output(ctx, "sh", "-c", "cat /sys/class/nvme/*/subsysnqn 2>/dev/null || true")
		if err != nil || !strings.Contains(out, nqn) {
			return "", err
		}
		return "it has", nil
	}))
}

// states are those of a host's controllers of the volume.
func (s *stage) states(ctx context.Context, node string) ([]string, error) {
	const script = `for c in /sys/class/nvme/*; do [ "$(cat $c/subsysnqn 2>/dev/null)" = "$1" ] && cat $c/state 2>/dev/null; done; true`
	out, err := s.guests[node].Output(ctx, "sh", "-c", script, "sh", s.bound.Partition.Status.NQN)
	return strings.Fields(out), err
}

// waitStates waits until a host has one controller of the volume for each of these
// states, and no other.
func (s *stage) waitStates(ctx context.Context, node string, want ...string) {
	s.t.Helper()
	s.must(flow.Eventually(ctx, fmt.Sprintf("controllers of %s are %q", node, want), refuseTimeout, func(ctx context.Context) (string, error) {
		got, err := s.states(ctx, node)
		if err != nil || slices.Equal(got, want) {
			return "", err
		}
		return fmt.Sprintf("they are %q", got), nil
	}))
}

// waitRefused waits until the target has refused a host that tries again and again
// by itself, which ends its controller, and sees the target refuse it once more:
// EIO is what the kernel answers for a host that is not on the list.
func (s *stage) waitRefused(ctx context.Context, node string) {
	s.t.Helper()
	s.waitStates(ctx, node)
	device, err := s.connect(ctx, node)
	var failure *guestexec.Error
	switch {
	case err == nil:
		s.t.Errorf("%s was detached, and connects to %s", node, device)
	case !errors.As(err, &failure) || !strings.Contains(failure.Output, syscall.EIO.Error()):
		s.t.Errorf("%s is not refused by the target: %v", node, err)
	}
}

// records are what the storage node's own device has now.
func (s *stage) records(ctx context.Context) []fenceio.Record {
	s.t.Helper()
	out, err := s.run(ctx, storage, "read", s.device)
	s.must(err)
	var records []fenceio.Record
	s.must(json.Unmarshal([]byte(out), &records))
	return records
}

// cut drops all packets of the volume's transport between the storage node and a
// host, in both directions, and returns what undoes that.
func (s *stage) cut(node string) (heal func()) {
	s.t.Helper()
	target, err := layout.Find(storage)
	s.must(err)
	peer, err := layout.Find(node)
	s.must(err)
	port := strconv.Itoa(int(s.portal.Port))
	sent, answered := []string{"-p", "tcp", "--dport", port}, []string{"-p", "tcp", "--sport", port}
	if s.portal.Transport == v1alpha1.TransportRDMA {
		sent = []string{"-p", "udp", "--dport", layout.RoCEPort}
		answered = sent
	}
	atTarget := suite.Drop(s.t, s.guests[storage], append(sent, "-s", peer.Address())...)
	atHost := suite.Drop(s.t, s.guests[node], append(answered, "-s", target.Address())...)
	return func() { atTarget(); atHost() }
}

// background runs fenceio in a guest until stop is called.
func (s *stage) background(ctx context.Context, guest string, args ...string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It ends by being killed.
		_, _ = s.run(ctx, guest, args...)
	}()
	return func() { cancel(); <-done }
}

// volume describes what setUp provisions.
type volume struct {
	name, transport string
	// filesystem makes a volume to mount; others are raw.
	filesystem bool
	// shared raw volumes have several writers.
	shared bool
}

// setUp provisions a volume over a transport.
func setUp(t *testing.T, f *flow.Flow, guests map[string]*guestexec.Client, v volume) *stage {
	t.Helper()
	ctx := t.Context()
	s := &stage{t: t, flow: f, guests: guests, name: v.name}
	parameters := map[string]string{"transport": v.transport}
	claim := flow.Claim{Name: v.name, Class: className(v.name), Size: "64Mi", Block: !v.filesystem}
	if v.shared {
		parameters["allow-multi-writer"] = "true"
		claim.AccessMode = corev1.ReadWriteMany
	}
	s.must(f.CreateClass(ctx, flow.Class{Name: claim.Class, Parameters: parameters}))
	since := time.Now()
	s.must(f.CreateClaim(ctx, claim))
	bound, err := f.WaitBound(ctx, v.name, since)
	s.must(err)
	s.bound = bound
	for _, p := range bound.Partition.Status.Portals {
		if string(p.Transport) == v.transport {
			s.portal = p
		}
	}
	if s.portal.Port == 0 {
		t.Fatalf("no portal for %s among %v", v.transport, bound.Partition.Status.Portals)
	}
	s.findDevice(ctx)
	return s
}

func className(volume string) string { return "e2e-" + volume }

// findDevice notes what the storage node exports, which may have another name when
// it has booted.
func (s *stage) findDevice(ctx context.Context) {
	s.t.Helper()
	path, err := s.guests[storage].Output(ctx, "cat",
		fmt.Sprintf("/sys/kernel/config/nvmet/subsystems/%s/namespaces/%d/device_path", s.bound.Partition.Status.NQN, identity.NSID))
	s.must(err)
	s.device = strings.TrimSpace(path)
}

// tearDown removes the volume.
func (s *stage) tearDown(ctx context.Context) {
	s.t.Helper()
	s.must(s.flow.DeleteClaim(ctx, s.name))
	s.must(s.flow.DeleteClass(ctx, className(s.name)))
}

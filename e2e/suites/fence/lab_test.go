package fence

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/fenceio"
	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/repo"
	"github.com/distort-io/distort/e2e/internal/suite"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	storage = "storage"
	program = "/run/lab/fenceio"

	attachTimeout = 2 * time.Minute
	goneTimeout   = time.Minute
)

// stage is one volume and those who write to it.
type stage struct {
	t      *testing.T
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

// install builds the program and copies it into the guests.
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
	s.must(s.flow.Client().Create(ctx, va))
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

// detach does what Kubernetes does for a node that does not answer: it does not
// ask the node.
func (s *stage) detach(ctx context.Context, node string) {
	s.t.Helper()
	va := s.attachment(node)
	s.must(client.IgnoreNotFound(s.flow.Client().Delete(ctx, va)))
	s.must(flow.Eventually(ctx, "the volume is detached from "+node, attachTimeout, func(ctx context.Context) (string, error) {
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

// setUp provisions a raw volume over a transport.
func setUp(t *testing.T, f *flow.Flow, guests map[string]*guestexec.Client, transport string) *stage {
	t.Helper()
	ctx := t.Context()
	s := &stage{t: t, flow: f, guests: guests}
	name := "fence-" + transport
	s.must(f.CreateClass(ctx, flow.Class{Name: name, Parameters: map[string]string{"transport": transport}}))
	since := time.Now()
	s.must(f.CreateClaim(ctx, flow.Claim{Name: name, Class: name, Size: "64Mi", Block: true}))
	bound, err := f.WaitBound(ctx, name, since)
	s.must(err)
	s.bound = bound
	for _, p := range bound.Partition.Status.Portals {
		if string(p.Transport) == transport {
			s.portal = p
		}
	}
	if s.portal.Port == 0 {
		t.Fatalf("no portal for %s among %v", transport, bound.Partition.Status.Portals)
	}
	s.device, err = guests[storage].Output(ctx, "cat",
		fmt.Sprintf("/sys/kernel/config/nvmet/subsystems/%s/namespaces/%d/device_path", bound.Partition.Status.NQN, identity.NSID))
	s.must(err)
	s.device = strings.TrimSpace(s.device)
	return s
}

// tearDown removes the volume.
func (s *stage) tearDown(ctx context.Context) {
	name := "fence-" + string(s.portal.Transport)
	s.must(s.flow.DeleteClaim(ctx, name))
	s.must(s.flow.DeleteClass(ctx, name))
}

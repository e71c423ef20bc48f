package fencemodel

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
)

const (
	storageNode = "storage-0"
	serial      = "S3R1AL"
	device      = "/dev/nvme0n1p1"
	volumeUID   = "11111111-1111-4111-8111-111111111111"
	hostA       = "consumer-a"
	hostB       = "consumer-b"
)

// bounds are what each party does at most.
type bounds struct {
	publishes []string       // the nodes that are to have the volume, in turn
	writes    map[string]int // by node; a node without any does not connect
	crashes   int
	quietly   bool // the agent may die before quiet effects too
	delays    int  // requests that outlive their sender
	// csiCrashes is how often the CSI controller dies with a request on its way.
	csiCrashes int

	storageReboots, hostReboots int
}

// bugs are planted to show that the explorer finds them.
type bugs struct {
	configfs func(kernel.FS) kernel.FS
	backend  func(export.Backend) export.Backend
}

func noBugs() bugs {
	return bugs{
		configfs: func(fs kernel.FS) kernel.FS { return fs },
		backend:  func(b export.Backend) export.Backend { return b },
	}
}

// world is one state of everything.
type world struct {
	left   bounds
	bugs   bugs
	kernel *nvmeoftest.Kernel
	api    apiServer

	agent   *process
	cache   *v1alpha1.NVMeVolumeAttachment // what the agent has seen last
	pending map[job]bool
	running job // "" when the agent is idle
	delayed []effect

	hosts map[string]*consumer
	names []string
	seen  int // writes on the medium that were looked at
	// broken is the first violation.
	broken string
}

// consumer is a host with its volume.
type consumer struct {
	node string
	ctrl *nvmeoftest.Controller
	// lost are controllers of which the host knows nothing since it rebooted, and
	// the target has not noticed.
	lost []*nvmeoftest.Controller
	// life counts the attachments that are gone, of which unpublish has answered OK.
	life int
}

// abandoned counts the connections that the target keeps for a host that is gone.
func (c *consumer) abandoned() int {
	n := 0
	for _, lost := range c.lost {
		if lost.Live() {
			n++
		}
	}
	return n
}

func newVolume() *v1alpha1.NVMePartition {
	return &v1alpha1.NVMePartition{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.DefaultNamespace, Name: "pvc-1", UID: volumeUID, Generation: 1},
		Spec: v1alpha1.NVMePartitionSpec{
			TargetBackend: v1alpha1.BackendKernel, Transport: v1alpha1.TransportTCP, AccessMode: v1alpha1.ReadWriteOnce,
			NodeName: storageNode, ParentDeviceSerialNumber: serial,
		},
		Status: v1alpha1.NVMePartitionStatus{Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionExported, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonExported,
		}}},
	}
}

func newAttachment(node string) *v1alpha1.NVMeVolumeAttachment {
	p := newVolume()
	return &v1alpha1.NVMeVolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: identity.AttachmentName(volumeUID), Finalizers: []string{v1alpha1.AccessFinalizer}},
		Spec: v1alpha1.NVMeVolumeAttachmentSpec{
			VolumeRef:  v1alpha1.VolumeReference{Kind: v1alpha1.KindNVMePartition, Namespace: p.Namespace, Name: p.Name, UID: p.UID},
			TargetNode: storageNode, NodeID: node, HostNQN: identity.HostNQN(node),
		},
	}
}

var (
	nqn    = identity.VolumeNQN(identity.ExternalID(volumeUID))
	portal = func() nvmeof.Listener {
		l, err := nvmeof.ParseListener("tcp://10.0.0.1:4420")
		if err != nil {
			panic(err)
		}
		return l
	}()
)

// newWorld is an agent that has just started on a node with nothing exported.
func newWorld(limit bounds, planted bugs) *world {
	w := &world{
		left: limit, bugs: planted,
		pending: map[job]bool{rebuild: true}, hosts: map[string]*consumer{}, names: []string{hostA, hostB},
	}
	w.left.writes = maps.Clone(limit.writes)
	w.newKernel()
	w.api = apiServer{volume: newVolume(), gone: w.answered}
	for _, node := range w.names {
		w.hosts[node] = &consumer{node: node}
	}
	w.agent = w.boot()
	// The first rebuild has no company.
	w.run(rebuild)
	for w.running != "" {
		w.agent.step(w.running)
	}
	return w
}

// newKernel boots the storage node.
func (w *world) newKernel() {
	w.kernel = nvmeoftest.NewKernel(nvmeoftest.WithDevices(device))
	w.kernel.HoldTeardown()
	w.seen = 0
}

func (w *world) run(j job) {
	delete(w.pending, j)
	w.running = j
	w.agent.start(j)
}

func (w *world) breaks(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// answered is the moment at which the CSI controller may answer unpublish: the
// attachment is gone.
func (w *world) answered(a *v1alpha1.NVMeVolumeAttachment) {
	c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionAccessReady)
	if a.Status.Revocation == nil || c == nil || c.Reason != v1alpha1.ReasonRevoked || a.Status.ObservedAttachmentID != a.Spec.AttachmentID {
		w.breaks("the attachment of %s went without evidence", a.Spec.NodeID)
	}
	w.hosts[a.Spec.NodeID].life++
}

// holder is the node whose attachment exists, or "".
func (w *world) holder() string {
	if w.api.attachment == nil {
		return ""
	}
	return w.api.attachment.Spec.NodeID
}

// check looks for violations of what must hold in every state.
func (w *world) check() {
	landed := w.kernel.Writes(device)
	for _, write := range landed[w.seen:] {
		node, life, _ := strings.Cut(write.Data, " life ")
		if node != w.holder() || life != fmt.Sprint(w.hosts[node].life) {
			w.breaks("a write of %s, sent in its life %s, landed while %q holds the volume", node, life, w.holder())
		}
	}
	w.seen = len(landed)
	writers := w.kernel.Writers(device)
	for _, h := range append(writers, w.allowed()...) {
		if w.holder() == "" || h != identity.HostNQN(w.holder()) {
			w.breaks("%s can reach the volume while %q holds it", h, w.holder())
		}
	}
}

// allowed is the allow-list of the volume's subsystem.
func (w *world) allowed() []string {
	list, err := w.kernel.ReadDir("subsystems/" + nqn + "/allowed_hosts")
	if err != nil {
		return nil
	}
	return list
}

// settled checks a state in which nothing is left to do.
func (w *world) settled() {
	enabled, err := w.kernel.ReadFile("subsystems/" + nqn + "/namespaces/1/enable")
	links, _ := w.kernel.ReadDir("ports/1/subsystems")
	switch {
	case w.api.attachment != nil:
		w.breaks("the revocation of %s is lost: %s", w.holder(), describe(w.api.attachment))
	case err != nil || strings.TrimSpace(string(enabled)) != "1" || len(links) != 1:
		w.breaks("the volume is not exported in the end: enable %q, %v, ports %v", enabled, err, links)
	}
}

// key tells states apart: two worlds with equal keys behave alike.
func (w *world) key(snapshot []string) string {
	parts := append(slices.Clip(snapshot), fmt.Sprint(w.left), describe(w.api.attachment), describe(w.cache), string(w.running), w.agent.wrote)
	for _, e := range w.api.events {
		parts = append(parts, "event "+describe(e))
	}
	for _, e := range w.delayed {
		parts = append(parts, "delayed "+e.name)
	}
	for _, node := range w.names {
		c := w.hosts[node]
		parts = append(parts, fmt.Sprintf("%s life %d live %t abandoned %d", node, c.life, c.ctrl != nil && c.ctrl.Live(), c.abandoned()))
	}
	for _, j := range []job{rebuild, attend} {
		parts = append(parts, fmt.Sprint(j, w.pending[j]))
	}
	parts = append(parts, w.agent.history...)
	return ranked(strings.Join(parts, "\n"))
}

// given finds what the API server has given out.
var given = regexp.MustCompile(`#\d+`)

// ranked replaces the numbers that the API server has given out by their ranks.
func ranked(state string) string {
	numbers := given.FindAllString(state, -1)
	slices.SortFunc(numbers, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	numbers = slices.Compact(numbers)
	return given.ReplaceAllStringFunc(state, func(n string) string { return fmt.Sprint("#", slices.Index(numbers, n)) })
}

// number is what tells the identifiers apart that the API server has given out.
func number[ID ~string](id ID) string {
	return "#" + strings.TrimLeft(string(id[strings.LastIndexByte(string(id), '-')+1:]), "0")
}

// describe is what matters of an attachment.
func describe(a *v1alpha1.NVMeVolumeAttachment) string {
	if a == nil {
		return "none"
	}
	reason := ""
	if c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionAccessReady); c != nil {
		reason = c.Reason
	}
	return fmt.Sprintf("%s %s version #%s deleting %t held %t %s observed %s evidence %t", a.Spec.NodeID, number(a.UID), a.ResourceVersion,
		a.DeletionTimestamp != nil, slices.Contains(a.Finalizers, v1alpha1.AccessFinalizer), reason, number(a.Status.ObservedAttachmentID), a.Status.Revocation != nil)
}

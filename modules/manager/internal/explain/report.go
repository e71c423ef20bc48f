package explain

import (
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sign is a text by which the message of an error tells the boundary that it
// comes from.
type sign struct {
	text     string
	boundary Boundary
	owner    Component
}

// stageSigns are the errors of distort-csi's node service, and of the kubelet
// when it finds no such service. Errors cross the kubelet as text alone.
var stageSigns = []sign{
	{"not found in the list of registered CSI drivers", Connection, CSINode},
	{"target refused the connection", Access, Agent},
	{"target is unreachable", Connection, CSINode},
	{"not supported by this host", Connection, CSINode},
	{"subsystem is connected by somebody else", Connection, CSINode},
	{"namespaces seen: ", Connection, CSINode},
	{"namespace identity is not unique", Connection, CSINode},
	{"device changed under its name", Connection, CSINode},
	{"connect nqn.", Connection, CSINode},
	{"refused to use the device", Mount, CSINode},
	{"filesystem record is not available", Mount, CSINode},
}

// createSigns are what distort-csi says of a volume that it waited for: the
// condition that was False, or who has not answered.
var createSigns = []sign{
	{"Placed=False", Placement, Manager},
	{"ClaimAuthorized=False", Storage, Agent},
	{"Provisioned=False", Storage, Agent},
	{"Exported=False", Export, Agent},
	{"(distort-manager)", Placement, Manager},
	{"(distort-agent on ", Storage, Agent},
	{"code = ResourceExhausted", Placement, Manager},
	{"code = InvalidArgument", Claim, User},
	{"code = OutOfRange", Claim, User},
	{"code = AlreadyExists", Claim, User},
}

// tell is the boundary and the owner of an error, the fallback's when no sign is
// in it.
func tell(message string, signs []sign, fallback sign) sign {
	for _, s := range signs {
		if strings.Contains(message, s.text) {
			return s
		}
	}
	return fallback
}

// grpcError matches how sidecars and kubelet write an error of a CSI call.
var grpcError = regexp.MustCompile(`rpc error: code = (\w+) desc = `)

// codeIn is the gRPC code in a message, else the other reason.
func codeIn(message, otherwise string) string {
	if m := grpcError.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return otherwise
}

// plain is a message without the wrapping of gRPC.
func plain(message string) string {
	return strings.TrimSpace(grpcError.ReplaceAllString(message, ""))
}

// provisioning is what csi-provisioner last reported of a claim that has no
// volume; nil when it reported no failure, or when the volume object itself tells.
func (s *Snapshot) provisioning() (*corev1.Event, sign) {
	if s.Claim == nil || s.Claim.Spec.VolumeName != "" || s.Partition != nil && s.Partition.DeletionTimestamp == nil {
		return nil, sign{}
	}
	e := s.latest(s.Claim.UID, func(e *corev1.Event) bool { return e.Reason == "ProvisioningFailed" })
	if e == nil {
		return nil, sign{}
	}
	return e, tell(e.Message, createSigns, sign{"", Claim, CSIController})
}

// provisioningFailed is the finding of this boundary when csi-provisioner's
// report points to it.
func (s *Snapshot) provisioningFailed(b Boundary) *Finding {
	e, sign := s.provisioning()
	if e == nil || sign.boundary != b {
		return nil
	}
	f := brokenByEvent(Owner{Component: sign.owner}, e)
	if b == Placement {
		f.Next = capacityCommand
	}
	return &f
}

// mounting is what the kubelet last reported of the volume in a pod that is not
// mounted; what it says of this volume goes before what it says of the pod.
func (s *Snapshot) mounting(pod *corev1.Pod) (*corev1.Event, sign) {
	if mounted(pod) {
		return nil, sign{}
	}
	volume := s.volumeName()
	e := s.latest(pod.UID, func(e *corev1.Event) bool {
		return (e.Reason == "FailedMount" || e.Reason == "FailedMapVolume") && volume != "" && strings.Contains(e.Message, `"`+volume+`"`)
	})
	if e == nil {
		names := s.namesIn(pod)
		e = s.latest(pod.UID, func(e *corev1.Event) bool {
			return e.Reason == "FailedMount" && slices.ContainsFunc(names, func(n string) bool { return unmounted(e.Message, n) })
		})
	}
	if e == nil {
		return nil, sign{}
	}
	fallback := sign{"", Mount, Kubelet}
	if grpcError.MatchString(e.Message) {
		fallback.owner = CSINode
	}
	return e, tell(e.Message, stageSigns, fallback)
}

// mountingFailed is the finding of this boundary when the kubelet's report points
// to it.
func (s *Snapshot) mountingFailed(pod *corev1.Pod, b Boundary) *Finding {
	e, sign := s.mounting(pod)
	if e == nil || sign.boundary != b {
		return nil
	}
	owner := Owner{Component: sign.owner, Node: pod.Spec.NodeName}
	if sign.owner == Agent {
		owner.Node = s.targetNode()
	}
	f := brokenByEvent(owner, e)
	if sign.owner == Kubelet {
		f.Next = describePod(pod)
	}
	return &f
}

// unmountedList matches the list of volumes in the kubelet's report on a pod.
var unmountedList = regexp.MustCompile(`unmounted volumes=\[([^\]]*)\]`)

func unmounted(message, volume string) bool {
	m := unmountedList.FindStringSubmatch(message)
	return m != nil && slices.ContainsFunc(strings.Fields(m[1]), func(n string) bool { return strings.Trim(n, ",") == volume })
}

// namesIn are the names by which the pod's spec calls the claim.
func (s *Snapshot) namesIn(pod *corev1.Pod) []string {
	var names []string
	for _, v := range pod.Spec.Volumes {
		if s.Claim != nil && ClaimName(pod, &v) == s.Claim.Name {
			names = append(names, v.Name)
		}
	}
	return names
}

// ClaimName is the claim behind a volume of a pod; empty when there is none.
func ClaimName(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}

// latest is the last warning about an object that is wanted.
func (s *Snapshot) latest(uid types.UID, wanted func(*corev1.Event) bool) *corev1.Event {
	var last *corev1.Event
	for i := range s.Events {
		e := &s.Events[i]
		if e.InvolvedObject.UID == uid && wanted(e) && (last == nil || lastSeen(e).After(lastSeen(last))) {
			last = e
		}
	}
	return last
}

// lastSeen and firstSeen read an event of either API version.
func lastSeen(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	}
	return firstSeen(e)
}

func firstSeen(e *corev1.Event) time.Time {
	switch {
	case !e.FirstTimestamp.IsZero():
		return e.FirstTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// brokenByEvent is the finding of a warning.
func brokenByEvent(owner Owner, e *corev1.Event) Finding {
	o := e.InvolvedObject
	return broken(owner, plain(e.Message), Evidence{
		Object: name("Event of "+o.Kind, o.Namespace, o.Name), Reason: codeIn(e.Message, e.Reason), Message: e.Message, Since: at(firstSeen(e)),
	})
}

package kubectl_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/explain"
)

type verdicts struct{ Verdicts []explain.Verdict }

func TestExplainAVolumeThatIsWell(t *testing.T) {
	ns := namespaceOf(t)
	newVolume(t, ns, "data")
	term := open(t, server.viewer)
	for _, argument := range []string{"pvc/data", "persistentvolumeclaim/data", "data", "pod/app-data", "app-data"} {
		term.run(t, "explain", argument, "-n", ns).ended(t, 0, "pvc "+ns+"/data: ok", "tcp://10.0.0.1:4420", "pod "+ns+"/app-data on node consumer-a has it")
	}
	var got verdicts
	r := term.run(t, "explain", "data", "-n", ns, "-o", "json")
	r.ended(t, 0)
	r.decode(t, &got)
	if len(got.Verdicts) != 1 || got.Verdicts[0].State != explain.OK || len(got.Verdicts[0].Steps) != 7 || len(got.Verdicts[0].Unreadable) != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestExplainReadsOnlyWhatItNeeds: no list of a whole kind for one claim, but for
// the pods of its namespace.
func TestExplainReadsOnlyWhatItNeeds(t *testing.T) {
	ns := namespaceOf(t)
	newVolume(t, ns, "data")
	term := open(t, server.viewer)
	term.run(t, "explain", "data", "-n", ns).ended(t, 0)
	for _, request := range term.seen() {
		for _, list := range []string{"/persistentvolumes", "/volumeattachments", "/nodes", "/nvmepartitions", "/nvmedevices", "/rdmastoragenodes", "/leases", "/storageclasses"} {
			if strings.HasSuffix(request, list) {
				t.Errorf("one claim cost %s", request)
			}
		}
	}
}

func TestExplainFindsWhatIsBrokenInACluster(t *testing.T) {
	ns := namespaceOf(t)
	term := open(t, server.viewer)

	full := newClaim(ns, "full", "distort-tcp", corev1.ClaimPending)
	create(t, full, newClaim(ns, "foreign", "other", corev1.ClaimPending), newClaim(ns, "waiting", "distort-tcp", corev1.ClaimPending))
	warn(t, "PersistentVolumeClaim", full, "ProvisioningFailed",
		`failed to provision volume with StorageClass "distort-tcp": rpc error: code = ResourceExhausted desc = no capacity: 0/1 drives can hold 1Gi: 1 insufficient space`)
	term.run(t, "explain", "pvc/full", "-n", ns).ended(t, 1, "BROKEN at placement", "1 insufficient space", "owner", "manager (pod distort-manager-0)", "kubectl distort capacity")

	refused := newVolume(t, ns, "refused")
	refused.attachment.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionAccessReady, metav1.ConditionFalse, v1alpha1.ReasonGrantFailed, "link host: device or resource busy")}
	update(t, refused.attachment)
	term.run(t, "explain", "refused", "-n", ns).ended(t, 1, "BROKEN at access", "GrantFailed", "agent on node storage-a (pod distort-agent-0)", "kubectl -n distort-system logs distort-agent-0")

	cut := newVolume(t, ns, "cut")
	cut.pod.Status.Phase = corev1.PodPending
	update(t, cut.pod)
	warn(t, "Pod", cut.pod, "FailedMount", `MountVolume.MountDevice failed for volume "`+cut.pv.Name+`" : rpc error: code = Unavailable desc = connect nqn.x at tcp://10.0.0.1:4420: target is unreachable: nothing listens there: connection refused`)
	term.run(t, "explain", "pod/app-cut", "-n", ns).ended(t, 1, "BROKEN at connection", "nothing listens there", "csi node on node consumer-a (pod distort-csi-node-0)")

	newVolume(t, ns, "fine")
	r := term.run(t, "explain", "--all", "-n", ns)
	r.ended(t, 1)
	want := map[string]string{"cut": "connection: ", "full": "placement: ", "refused": "access: ", "waiting": "pvc: in progress: "}
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != len(want) {
		t.Errorf("%d lines, want %d:\n%s", len(lines), len(want), r.out)
	}
	for name, says := range want {
		if !strings.Contains(r.out, "pvc "+ns+"/"+name+": "+says) {
			t.Errorf("no line about %s that says %q:\n%s", name, says, r.out)
		}
	}
	// The same verdicts come from single reads and from lists.
	var all verdicts
	term.run(t, "explain", "--all", "-n", ns, "-o", "json").decode(t, &all)
	for _, v := range all.Verdicts {
		var one verdicts
		term.run(t, "explain", "pvc/"+v.Subject.Name, "-n", ns, "-o", "json").decode(t, &one)
		if got := one.Verdicts[0]; got.Boundary != v.Boundary || got.State != v.State || got.Message != v.Message && v.State != explain.Waiting {
			t.Errorf("%s: alone %s at %q (%s), among all %s at %q (%s)", v.Subject, got.State, got.Boundary, got.Message, v.State, v.Boundary, v.Message)
		}
	}
}

func TestExplainAllCoversVolumesWithoutClaim(t *testing.T) {
	ns := namespaceOf(t)
	v := newVolume(t, ns, "data")
	term := open(t, server.viewer)
	term.run(t, "explain", "--all").ended(t, 0, "volumes are well")
	for _, o := range []client.Object{v.pod, v.attachment, v.claim, v.pv} {
		drop(t, o)
	}
	term.run(t, "explain", "--all").ended(t, 0, "nvmepartition distort-system/"+v.partition.Name+": pvc: in progress: ", "has no PersistentVolume and no claim")
	if err := server.client.Patch(t.Context(), v.partition, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["`+v1alpha1.SliceFinalizer+`"]}}`))); err != nil {
		t.Fatal(err)
	}
	if err := server.client.Delete(t.Context(), v.partition); err != nil {
		t.Fatal(err)
	}
	term.run(t, "explain", "--all").ended(t, 0, "nvmepartition distort-system/"+v.partition.Name+": pvc: in progress: ", "is being deleted")
}

func TestExplainWithFewRights(t *testing.T) {
	ns := namespaceOf(t)
	v := newVolume(t, ns, "data")
	term := open(t, server.clerk)
	term.run(t, "explain", "data", "-n", ns).ended(t, 2, "not readable at placement", "NVMePartition "+v.partition.Name, "forbidden")
	term.run(t, "explain", "--all", "-n", ns).ended(t, 2, "pvc "+ns+"/data: placement: NVMePartition is not readable")
	// What can be seen broken is, all the same.
	v.pod.Status.Phase = corev1.PodPending
	update(t, v.pod)
	warn(t, "Pod", v.pod, "FailedMount", `MountVolume.MountDevice failed for volume "`+v.pv.Name+`" : rpc error: code = FailedPrecondition desc = refused to use the device: recorded filesystem is ext4`)
	term.run(t, "explain", "pod/app-data", "-n", ns).ended(t, 1, "BROKEN at mount", "recorded filesystem is ext4", "csi node on node consumer-a")
}

func TestExplainRefusesWhatItCannotExplain(t *testing.T) {
	ns := namespaceOf(t)
	create(t, newClaim(ns, "foreign", "other", corev1.ClaimPending), newPod(ns, "plain", consumer, "foreign", corev1.PodRunning))
	term := open(t, server.viewer)
	for says, args := range map[string][]string{
		"PersistentVolumeClaim " + ns + "/nothing: not found":             {"explain", "pvc/nothing"},
		"pod " + ns + "/nothing: not found":                               {"explain", "pod/nothing"},
		"no PersistentVolumeClaim and no Pod is named " + ns + "/nothing": {"explain", "nothing"},
		"not a volume of storage.distort.io":                              {"explain", "pvc/foreign"},
		"pod " + ns + "/plain uses no claim":                              {"explain", "pod/plain"},
		`kind "node" is neither pvc nor pod`:                              {"explain", "node/x"},
		"want pvc/NAME, pod/NAME or NAME":                                 {"explain", "pvc/"},
		"got 0 arguments":                                                 {"explain"},
		"--all takes no name":                                             {"explain", "--all", "x"},
		"must be text or json":                                            {"explain", "x", "-o", "yaml"},
		"unknown flag: --colour":                                          {"explain", "x", "--colour"},
		`unknown command "explode"`:                                       {"explode"},
		"--request-timeout 0s: must be above 0":                           {"explain", "x", "--request-timeout", "0s"},
	} {
		t.Run(says, func(t *testing.T) { term.run(t, append(args, "-n", ns)...).ended(t, 2, says) })
	}
}

func TestExplainWithoutAnAPIServer(t *testing.T) {
	front := httptest.NewServer(http.NotFoundHandler())
	front.Close()
	term := &terminal{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	writeKubeconfig(t, term.kubeconfig, front.URL)
	term.run(t, "explain", "x").ended(t, 2, "connection refused")
	term.kubeconfig += "-missing"
	term.run(t, "explain", "x").ended(t, 2, "find the API server", "no such file")
}

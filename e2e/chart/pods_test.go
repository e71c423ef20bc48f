package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// privileges are what a container may do, a row of the README's table.
type privileges struct {
	container, user, extra, host, folders string
}

const restricted = "none: no capabilities, no escalation, seccomp RuntimeDefault"

// allowed are all containers of the chart. Whoever adds one, or gives one more,
// says so here and in the README.
var allowed = []privileges{
	{"distort-agent: agent", "root", "all: privileged", "network, PIDs", "/dev, /sys, /lib/modules (read-only)"},
	{"distort-csi-controller: distort-csi", "65532", restricted, "none", "none"},
	{"distort-csi-controller: csi-provisioner", "65532", restricted, "none", "none"},
	{"distort-csi-controller: csi-attacher", "65532", restricted, "none", "none"},
	{"distort-csi-controller: csi-resizer", "65532", restricted, "none", "none"},
	{"distort-csi-node: distort-csi", "root", "all: privileged", "network", "/var/lib/kubelet (Bidirectional), /dev, /sys, /lib/modules (read-only), /run (read-only)"},
	{"distort-manager: manager", "65532", restricted, "none", "none"},
}

// workload is a pod template and its name.
type workload struct {
	name string
	pod  corev1.PodSpec
}

func workloads(t *testing.T, all []*unstructured.Unstructured) []workload {
	t.Helper()
	var out []workload
	for _, d := range typed[appsv1.DaemonSet](t, all, "DaemonSet") {
		out = append(out, workload{d.Name, d.Spec.Template.Spec})
	}
	for _, d := range typed[appsv1.Deployment](t, all, "Deployment") {
		out = append(out, workload{d.Name, d.Spec.Template.Spec})
	}
	slices.SortFunc(out, func(a, b workload) int { return strings.Compare(a.name, b.name) })
	return out
}

// TestPrivileges: each container has exactly the privileges of the table, whatever
// is turned on.
func TestPrivileges(t *testing.T) {
	for name, values := range map[string][]string{"defaults": nil, "lab": lab(), "everything": everything} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var found []privileges
			for _, w := range workloads(t, render(t, values...)) {
				if len(w.pod.InitContainers) > 0 || len(w.pod.EphemeralContainers) > 0 {
					t.Errorf("%s has init containers, which the table does not know", w.name)
				}
				for _, c := range w.pod.Containers {
					found = append(found, privilegesOf(w, c))
				}
			}
			if diff := cmp.Diff(allowed, found, cmp.AllowUnexported(privileges{})); diff != "" {
				t.Errorf("privileges (-table +rendered):\n%s", diff)
			}
		})
	}
}

func privilegesOf(w workload, c corev1.Container) privileges {
	p := privileges{container: w.name + ": " + c.Name, user: "root", extra: "default capabilities"}
	if s := c.SecurityContext; s != nil {
		if s.RunAsUser != nil && *s.RunAsUser != 0 && s.RunAsNonRoot != nil && *s.RunAsNonRoot {
			p.user = fmt.Sprint(*s.RunAsUser)
		}
		dropped := s.Capabilities != nil && slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(s.Capabilities.Add) == 0
		switch {
		case s.Privileged != nil && *s.Privileged:
			p.extra = "all: privileged"
		case dropped && s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation &&
			s.SeccompProfile != nil && s.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault:
			p.extra = restricted
		case s.Capabilities != nil:
			p.extra = fmt.Sprintf("capabilities %v without %v", s.Capabilities.Add, s.Capabilities.Drop)
		}
	}
	var host []string
	for what, has := range map[string]bool{"network": w.pod.HostNetwork, "PIDs": w.pod.HostPID, "IPC": w.pod.HostIPC} {
		if has {
			host = append(host, what)
		}
	}
	slices.SortFunc(host, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	p.host, p.folders = orNone(host), orNone(foldersOf(w, c))
	return p
}

// foldersOf lists the folders of the host that a container sees.
func foldersOf(w workload, c corev1.Container) []string {
	var out []string
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(w.pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 || w.pod.Volumes[i].HostPath == nil {
			continue
		}
		folder := w.pod.Volumes[i].HostPath.Path
		if m.ReadOnly {
			folder += " (read-only)"
		}
		if m.MountPropagation != nil {
			folder += fmt.Sprintf(" (%s)", *m.MountPropagation)
		}
		out = append(out, folder)
	}
	return out
}

func orNone(what []string) string {
	if len(what) == 0 {
		return "none"
	}
	return strings.Join(what, ", ")
}

// TestReadmeHasThePrivileges compares the README's table with that of this file.
func TestReadmeHasThePrivileges(t *testing.T) {
	var want strings.Builder
	want.WriteString("| container | runs as | privileges | host namespaces | host folders |\n|---|---|---|---|---|\n")
	for _, p := range allowed {
		fmt.Fprintf(&want, "| %s | %s | %s | %s | %s |\n", p.container, p.user, p.extra, p.host, p.folders)
	}
	readme, err := os.ReadFile(filepath.Join(chartDir(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), want.String()) {
		t.Errorf("charts/distort/README.md must have this table:\n%s", want.String())
	}
}

// exact is an image by digest or exact tag.
var exact = regexp.MustCompile(`^[^:@]+(:[0-9]+)?(/[^:@]+)*(:[A-Za-z0-9_][A-Za-z0-9._-]*|@sha256:[0-9a-f]{64})$`)

// TestContainers: what every container of the product has.
func TestContainers(t *testing.T) {
	for name, values := range map[string][]string{"defaults": nil, "lab": lab(), "everything": everything} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, w := range workloads(t, render(t, values...)) {
				if w.pod.PriorityClassName == "" {
					t.Errorf("%s has no priority class: it would go before those it serves", w.name)
				}
				if w.pod.ServiceAccountName != w.name {
					t.Errorf("%s runs as service account %q, want its own", w.name, w.pod.ServiceAccountName)
				}
				for _, c := range w.pod.Containers {
					for _, problem := range problems(c) {
						t.Errorf("%s: %s: %s", w.name, c.Name, problem)
					}
				}
			}
		})
	}
}

func problems(c corev1.Container) []string {
	var out []string
	if !exact.MatchString(c.Image) || strings.HasSuffix(c.Image, ":latest") {
		out = append(out, "image "+c.Image+" is not an exact one")
	}
	if c.SecurityContext == nil || c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
		out = append(out, "its root file system can be written")
	}
	if c.LivenessProbe == nil {
		out = append(out, "no liveness probe")
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
		out = append(out, "it does not say what it needs")
	}
	if !c.Resources.Limits.Cpu().IsZero() {
		out = append(out, "a CPU limit would stall fencing and heartbeats")
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		if probe != nil && !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == probe.HTTPGet.Port.StrVal }) {
			out = append(out, "a probe asks port "+probe.HTTPGet.Port.StrVal+", which it does not have")
		}
	}
	return out
}

package chart

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestCRDs: they are those of module api, and stay when the release goes.
func TestCRDs(t *testing.T) {
	crds := typed[apiextensionsv1.CustomResourceDefinition](t, render(t), "CustomResourceDefinition")
	files, err := filepath.Glob(filepath.Join(here.root, "modules", "api", "config", "crd", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 || len(crds) != len(files) {
		t.Fatalf("%d CRDs are rendered, module api has %d", len(crds), len(files))
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &want); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(crds, func(c apiextensionsv1.CustomResourceDefinition) bool { return c.Name == want.Name })
		if i < 0 {
			t.Errorf("CRD %s is not in the chart", want.Name)
			continue
		}
		if crds[i].Annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("CRD %s would be deleted with the release, and all objects with it", want.Name)
		}
		if diff := cmp.Diff(want.Spec, crds[i].Spec); diff != "" {
			t.Errorf("CRD %s (-api +chart):\n%s", want.Name, diff)
		}
	}
}

// TestNothingButCRDsIsKept: what is left behind unasked cannot be installed again.
func TestNothingButCRDsIsKept(t *testing.T) {
	for _, u := range render(t, everything...) {
		if u.GetKind() != "CustomResourceDefinition" && u.GetAnnotations()["helm.sh/resource-policy"] != "" {
			t.Errorf("%s %s is kept when the release goes", u.GetKind(), u.GetName())
		}
	}
}

// TestDrains: a drain takes one replica of each Deployment, and always can.
func TestDrains(t *testing.T) {
	all := render(t, everything...)
	budgets := typed[policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget")
	for _, d := range typed[appsv1.Deployment](t, all, "Deployment") {
		i := slices.IndexFunc(budgets, func(b policyv1.PodDisruptionBudget) bool {
			return reflect.DeepEqual(b.Spec.Selector, d.Spec.Selector)
		})
		if i < 0 {
			t.Errorf("%s has no PodDisruptionBudget", d.Name)
			continue
		}
		if b := budgets[i]; b.Spec.MaxUnavailable == nil || b.Spec.MaxUnavailable.IntVal != 1 || b.Spec.MinAvailable != nil {
			t.Errorf("PodDisruptionBudget %s: %+v, want maxUnavailable 1", b.Name, b.Spec)
		}
		if len(d.Spec.Template.Spec.TopologySpreadConstraints) != 1 {
			t.Errorf("replicas of %s may all be on one node", d.Name)
		}
	}
}

// TestUpdateStrategies: OnDelete goes without the settings of a rolling update.
func TestUpdateStrategies(t *testing.T) {
	want := map[string]appsv1.DaemonSetUpdateStrategyType{
		"distort-agent": appsv1.OnDeleteDaemonSetStrategyType, "distort-csi-node": appsv1.RollingUpdateDaemonSetStrategyType,
	}
	for _, d := range typed[appsv1.DaemonSet](t, render(t, everything...), "DaemonSet") {
		s := d.Spec.UpdateStrategy
		if s.Type != want[d.Name] || (s.RollingUpdate == nil) != (s.Type == appsv1.OnDeleteDaemonSetStrategyType) {
			t.Errorf("%s is replaced by %+v, want %s", d.Name, s, want[d.Name])
		}
	}
}

// TestNetworkPolicies: pods with a network of their own are spoken to by nobody,
// and with metrics by those who read them.
func TestNetworkPolicies(t *testing.T) {
	own := map[string]bool{}
	for _, w := range workloads(t, render(t)) {
		own[w.name] = !w.pod.HostNetwork
	}
	closed := typed[networkingv1.NetworkPolicy](t, render(t), "NetworkPolicy")
	for _, p := range closed {
		if !own[p.Name] {
			t.Errorf("NetworkPolicy %s has no pods that it could apply to", p.Name)
		}
		if len(p.Spec.Ingress) != 0 || !slices.Equal(p.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
			t.Errorf("NetworkPolicy %s: %+v, want no ingress and free egress", p.Name, p.Spec)
		}
		delete(own, p.Name)
	}
	for name, uncovered := range own {
		if uncovered {
			t.Errorf("%s has no NetworkPolicy", name)
		}
	}
	for _, p := range typed[networkingv1.NetworkPolicy](t, render(t, everything...), "NetworkPolicy") {
		if len(p.Spec.Ingress) != 1 || len(p.Spec.Ingress[0].From) != 1 || len(p.Spec.Ingress[0].Ports) == 0 {
			t.Errorf("NetworkPolicy %s lets in %+v, want the monitoring namespaces alone", p.Name, p.Spec.Ingress)
		}
		if len(p.Spec.Egress) != 1 || len(p.Spec.Egress[0].Ports) != 4 || len(p.Spec.PolicyTypes) != 2 {
			t.Errorf("NetworkPolicy %s lets out %+v, want DNS and the API server's ports", p.Name, p.Spec.Egress)
		}
	}
}

// TestMonitors: each ServiceMonitor finds the Service of its component, and that
// one ports which its pods have.
func TestMonitors(t *testing.T) {
	all := render(t, everything...)
	ports := map[string][]string{}
	for _, w := range workloads(t, all) {
		for _, c := range w.pod.Containers {
			for _, p := range c.Ports {
				ports[w.name] = append(ports[w.name], p.Name)
			}
		}
	}
	monitors := 0
	for _, u := range all {
		if u.GetKind() != "ServiceMonitor" {
			continue
		}
		monitors++
		i := slices.IndexFunc(all, func(s *unstructured.Unstructured) bool {
			return s.GetKind() == "Service" && s.GetName() == u.GetName()+"-metrics"
		})
		if i < 0 {
			t.Errorf("ServiceMonitor %s has no Service", u.GetName())
			continue
		}
		selector, _, _ := unstructured.NestedStringMap(u.Object, "spec", "selector", "matchLabels")
		for key, value := range selector {
			if all[i].GetLabels()[key] != value {
				t.Errorf("ServiceMonitor %s wants %s=%s, its Service has %q", u.GetName(), key, value, all[i].GetLabels()[key])
			}
		}
		if u.GetLabels()["release"] != "prometheus" {
			t.Errorf("ServiceMonitor %s lacks the label by which its Prometheus finds it", u.GetName())
		}
		endpoints, _, _ := unstructured.NestedSlice(u.Object, "spec", "endpoints")
		for _, e := range endpoints {
			if port := e.(map[string]any)["port"].(string); !slices.Contains(ports[u.GetName()], port) {
				t.Errorf("ServiceMonitor %s reads port %s, its pods have %v", u.GetName(), port, ports[u.GetName()])
			}
		}
	}
	if monitors != 4 {
		t.Errorf("%d ServiceMonitors, want one for each of 4 components", monitors)
	}
}

// TestStorageClasses: lists stay lists (known fault HD4).
func TestStorageClasses(t *testing.T) {
	classes := typed[storagev1.StorageClass](t, render(t, "--set-json",
		`storageClasses=[{"name":"fast","default":true,"mountOptions":["noatime","nodev"],"parameters":{"transport":"tcp","ctrl-loss-tmo":"-1"}}]`), "StorageClass")
	if len(classes) != 1 {
		t.Fatalf("%d StorageClasses, want the one that was asked for", len(classes))
	}
	c := classes[0]
	if !slices.Equal(c.MountOptions, []string{"noatime", "nodev"}) || c.Parameters["ctrl-loss-tmo"] != "-1" ||
		c.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" || *c.ReclaimPolicy != "Delete" || *c.VolumeBindingMode != "WaitForFirstConsumer" {
		t.Errorf("StorageClass is rendered as %+v", c)
	}
}

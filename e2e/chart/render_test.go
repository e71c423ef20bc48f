package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// everything turns all options on.
var everything = []string{
	"--set", "metrics.enabled=true,metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.labels.release=prometheus",
	"--set", "networkPolicy.apiServerPorts={443,6443},networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring",
	"--set", "manager.replicas=2,csiController.replicas=2,images.pullSecrets[0].name=mirror",
	"--set", "agent.tcpInterface=eth1,agent.denySerials={S1,S2},agent.updateStrategy.type=OnDelete,csiNode.maxVolumes=64",
}

// nothing turns off what can be.
var nothing = []string{
	"--set", "networkPolicy.enabled=false,uninstallGuard=false,csiController.storageCapacity.publish=false,csiNode.shutdownMarker=,networkDomain=",
	"--set-json", "storageClasses=[]",
}

// lab are the values of the lab of virtual machines.
func lab() []string { return []string{"--values", filepath.Join(here.root, "e2e", "values.yaml")} }

// rendered keeps what helm made of each set of values.
var rendered sync.Map

// render returns the manifests of the chart, hooks included. They are shared.
func render(t *testing.T, values ...string) []*unstructured.Unstructured {
	t.Helper()
	once, _ := rendered.LoadOrStore(strings.Join(values, " "), sync.OnceValues(func() ([]*unstructured.Unstructured, error) {
		out, err := helm(context.Background(), append([]string{"template", release, chartDir(), "--kube-version", "v1.37.0"}, values...)...)
		if err != nil {
			return nil, err
		}
		return decode(out)
	}))
	all, err := once.(func() ([]*unstructured.Unstructured, error))()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func decode(manifests []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		object := map[string]any{}
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("manifest %d of the chart: %w", len(all), err)
		case len(object) > 0:
			all = append(all, &unstructured.Unstructured{Object: object})
		}
	}
}

// typed converts the manifests of one kind.
func typed[T any](t *testing.T, all []*unstructured.Unstructured, kind string) []T {
	t.Helper()
	var out []T
	for _, u := range all {
		if u.GetKind() != kind {
			continue
		}
		var object T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, &object, true); err != nil {
			t.Fatalf("%s %s: %v", kind, u.GetName(), err)
		}
		out = append(out, object)
	}
	return out
}

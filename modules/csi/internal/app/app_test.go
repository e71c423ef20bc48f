package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/app"
)

func TestANodeOfUnknownPlaceDoesNotStart(t *testing.T) {
	labelled(t, "unlabelled", "")
	labelled(t, "labelled-badly", "")
	for name, node := range map[string]string{"no such node": "missing", "no label": "unlabelled"} {
		t.Run(name, func(t *testing.T) {
			err := app.Run(t.Context(), options(t, app.ModeNode, node), server.Config(), newHost(t).Host, logr.Discard())
			if err == nil || !strings.Contains(err.Error(), v1alpha1.TopologyKey) || !strings.Contains(err.Error(), node) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestANodeIsWhereItsFlagOrElseItsLabelSays(t *testing.T) {
	labelled(t, "by-label", "rack-7")
	for name, c := range map[string]struct{ node, flag, want string }{
		"label": {"by-label", "", "rack-7"},
		"flag":  {"without-object", "rack-8", "rack-8"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, app.ModeNode, c.node)
			o.NetworkDomain, o.MaxVolumes = c.flag, 17
			conn, _ := start(t, o, newHost(t))
			r, err := csi.NewNodeClient(conn).NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if r.GetMaxVolumesPerNode() != 17 {
				t.Errorf("takes %d volumes, want 17 (PL5)", r.GetMaxVolumesPerNode())
			}
			if r.GetNodeId() != c.node || r.GetAccessibleTopology().GetSegments()[v1alpha1.TopologyKey] != c.want {
				t.Errorf("got %v", r)
			}
		})
	}
}

func TestEachModeServesItsServicesAlone(t *testing.T) {
	for mode, served := range map[app.Mode]struct{ controller, node bool }{
		app.ModeController: {true, false},
		app.ModeNode:       {false, true},
	} {
		t.Run(string(mode), func(t *testing.T) {
			o := options(t, mode, "any")
			o.NetworkDomain = "rack-1"
			conn, _ := start(t, o, newHost(t))
			_, err := csi.NewControllerClient(conn).ControllerGetCapabilities(t.Context(), &csi.ControllerGetCapabilitiesRequest{})
			if (status.Code(err) == codes.Unimplemented) == served.controller {
				t.Errorf("controller: %v", err)
			}
			_, err = csi.NewNodeClient(conn).NodeGetCapabilities(t.Context(), &csi.NodeGetCapabilitiesRequest{})
			if (status.Code(err) == codes.Unimplemented) == served.node {
				t.Errorf("node: %v", err)
			}
		})
	}
}

func TestANodeStartsWithoutModulesThatItCannotLoad(t *testing.T) {
	for load, want := range map[bool][]string{
		false: nil,
		true:  {"modprobe -- nvme-fabrics", "modprobe -- nvme-tcp", "modprobe -- nvme-rdma"},
	} {
		o, h := options(t, app.ModeNode, "any"), newHost(t)
		o.NetworkDomain, o.LoadModules = "rack-1", load
		_, logged := start(t, o, h)
		if diff := cmp.Diff(want, h.commands.commands()); diff != "" {
			t.Error(diff)
		}
		if strings.Contains(logged.String(), "kernel module is not loaded") != load {
			t.Errorf("log: %s", logged)
		}
	}
}

// TestKubeletFindsTheDriver plays kubelet's plugin watcher.
func TestKubeletFindsTheDriver(t *testing.T) {
	o := options(t, app.ModeNode, "any")
	o.NetworkDomain = "rack-1"
	_, logged := start(t, o, newHost(t))
	socket := filepath.Join(o.KubeletDir, "plugins_registry", "storage.distort.io-reg.sock")
	client := registerapi.NewRegistrationClient(dial(t, socket))
	info, err := client.GetInfo(t.Context(), &registerapi.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if info.GetType() != registerapi.CSIPlugin || info.GetName() != "storage.distort.io" || "unix://"+info.GetEndpoint() != o.Endpoint {
		t.Errorf("got %v", info)
	}
	if diff := cmp.Diff([]string{"1.0.0"}, info.GetSupportedVersions()); diff != "" {
		t.Error(diff)
	}
	if _, err := client.NotifyRegistrationStatus(t.Context(), &registerapi.RegistrationStatus{Error: "no room for you"}); err != nil {
		t.Error(err)
	}
	if !strings.Contains(logged.String(), "no room for you") {
		t.Error("a refusal is not logged")
	}
	for path, want := range map[string]os.FileMode{
		socket: 0o600, info.GetEndpoint(): 0o600, filepath.Dir(info.GetEndpoint()): 0o700,
	} {
		stat, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if stat.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o (design.md §11)", path, stat.Mode().Perm(), want)
		}
	}
}

func TestFlagsAreRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*app.Options)
		says   string
	}{
		"mode":             {func(o *app.Options) { o.Mode = "both" }, "--mode \"both\""},
		"endpoint":         {func(o *app.Options) { o.Endpoint = "tcp://0.0.0.0:1" }, "--endpoint"},
		"long namespace":   {func(o *app.Options) { o.Namespace = strings.Repeat("n", 41) }, "too long for the handles of its volumes"},
		"namespace":        {func(o *app.Options) { o.Namespace = "a/b" }, "--namespace \"a/b\""},
		"backend":          {func(o *app.Options) { o.DefaultBackend = "spdk" }, "--default-backend \"spdk\""},
		"topology key":     {func(o *app.Options) { o.TopologyKey = "a b" }, "--topology-key \"a b\""},
		"domain":           {func(o *app.Options) { o.NetworkDomain = "a b" }, "--network-domain"},
		"default domain":   {func(o *app.Options) { o.DefaultNetworkDomain = "" }, "--default-network-domain"},
		"node":             {func(o *app.Options) { o.NodeID = "" }, "--node-id"},
		"kubelet dir":      {func(o *app.Options) { o.KubeletDir = "var" }, "--kubelet-dir \"var\""},
		"max volumes":      {func(o *app.Options) { o.MaxVolumes = -1 }, "--max-volumes -1"},
		"max connects":     {func(o *app.Options) { o.MaxConnects = -1 }, "--max-connects -1"},
		"shutdown marker":  {func(o *app.Options) { o.ShutdownMarker = "run/nologin" }, "--shutdown-marker \"run/nologin\""},
		"patience":         {func(o *app.Options) { o.ShutdownPatience = time.Minute }, "--shutdown-patience 1m0s"},
		"registration dir": {func(o *app.Options) { o.RegistrationDir = "/" }, "--registration-dir \"/\""},
	} {
		t.Run(name, func(t *testing.T) {
			o := flags(t, "--node-id=worker-1")
			c.change(&o)
			err := app.Run(t.Context(), o, server.Config(), newHost(t).Host, logr.Discard())
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want an error that says %q", err, c.says)
			}
		})
	}
}

func TestFlagDefaultsComeFromTheDownwardAPI(t *testing.T) {
	o := flags(t)
	if o.MaxVolumes != 128 {
		t.Errorf("a node takes %d volumes by default, want 128 (PL5)", o.MaxVolumes)
	}
	if o.NodeID != "worker-from-env" || o.Namespace != "namespace-from-env" || o.Mode != app.ModeAll || o.DefaultBackend != "kernel" {
		t.Errorf("got %+v", o)
	}
}

func flags(t *testing.T, args ...string) app.Options {
	t.Helper()
	var o app.Options
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(f, func(name string) string {
		return map[string]string{"NODE_NAME": "worker-from-env", "POD_NAMESPACE": "namespace-from-env"}[name]
	})
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestMainRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"help":            {[]string{"--help"}, 0},
		"version":         {[]string{"--version"}, 0},
		"an unknown flag": {[]string{"--nope"}, 2},
		"an argument":     {[]string{"nope"}, 2},
		"a bad flag":      {[]string{"--mode=both"}, 1},
		"a bad level":     {[]string{"--log-level=LOUD"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			out := &logBuffer{}
			if code := app.Main(t.Context(), c.args, func(string) string { return "" }, out); code != c.code {
				t.Errorf("code %d, want %d: %s", code, c.code, out)
			}
		})
	}
}

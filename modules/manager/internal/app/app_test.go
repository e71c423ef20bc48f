package app_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/manager/internal/app"
)

func TestParse(t *testing.T) {
	noenv := func(string) string { return "" }
	defaults := app.Options{
		Namespace: "distort-system", DefaultNetworkDomain: "default", LeaderElect: true,
		LeaseDuration:          15 * time.Second,
		HealthProbeBindAddress: ":8081", MetricsBindAddress: "0", KubeAPIQPS: 100, KubeAPIBurst: 200,
	}
	with := func(change func(*app.Options)) app.Options { o := defaults; change(&o); return o }
	cases := map[string]struct {
		args   []string
		getenv func(string) string
		want   app.Options
		err    string
	}{
		"nothing":         {want: defaults},
		"pod's namespace": {getenv: func(name string) string { return map[string]string{"POD_NAMESPACE": "storage"}[name] }, want: with(func(o *app.Options) { o.Namespace = "storage" })},
		"flags": {
			args: []string{"--namespace=n", "--default-network-domain", "rack-1", "--leader-elect=false", "--leader-elect-lease-duration=1m", "--kube-api-qps=5", "--log-level=WARN"},
			want: with(func(o *app.Options) {
				o.Namespace, o.DefaultNetworkDomain, o.LeaderElect, o.KubeAPIQPS, o.LogLevel = "n", "rack-1", false, 5, 4
				o.LeaseDuration = time.Minute
			}),
		},
		"namespace that is none":  {args: []string{"--namespace=a/b"}, err: `--namespace "a/b"`},
		"domain that is no label": {args: []string{"--default-network-domain=a b"}, err: `--default-network-domain "a b"`},
		"empty domain":            {args: []string{"--default-network-domain="}, err: "must be a label value and not empty"},
		"no requests":             {args: []string{"--kube-api-qps=0"}, err: "must be above 0"},
		"lease without renewals":  {args: []string{"--leader-elect-lease-duration=2s"}, err: "--leader-elect-lease-duration 2s: must be at least 3s"},
		"argument":                {args: []string{"run"}, err: `unexpected argument "run"`},
		"unknown flag":            {args: []string{"--nope"}, err: "--nope"},
		"unknown level":           {args: []string{"--log-level=LOUD"}, err: "LOUD"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.getenv == nil {
				tc.getenv = noenv
			}
			got, err := app.Parse(tc.args, tc.getenv)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want one that says %q", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("error %v, options (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestMissingKubeconfigIsNamed(t *testing.T) {
	o := app.Defaults(os.Getenv)
	o.Kubeconfig = filepath.Join(t.TempDir(), "missing")
	if err := app.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), o.Kubeconfig) {
		t.Errorf("error %v, want one that names %s", err, o.Kubeconfig)
	}
}

func TestProbesAnswer(t *testing.T) {
	empty(t)
	address := freeAddress(t)
	manage(t, func(o *app.Options) { o.HealthProbeBindAddress = address })
	for _, path := range []string{"/healthz", "/readyz"} {
		eventually(t, path, func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
			if err != nil {
				return err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			defer func() { _ = response.Body.Close() }()
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("answered %s", response.Status)
			}
			return nil
		})
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func TestOneOfTwoReplicasWorksAndTheOtherFollows(t *testing.T) {
	empty(t)
	elect := func(o *app.Options) { o.LeaderElect = true }
	first, stopFirst := manage(t, elect)
	eventually(t, "a leader", func(ctx context.Context) error {
		l := &coordinationv1.Lease{}
		if err := server.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "distort-manager"}, l); err != nil {
			return err
		}
		if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
			return fmt.Errorf("the Lease has no holder")
		}
		return nil
	})
	second, _ := manage(t, elect)
	readyDrive(t, "a", 4)
	p := partition("p", 3)
	create(t, p)
	eventually(t, "partition", placedOn(p, "a"))
	if got := second.to(""); len(got) > 0 || len(first.to("")) == 0 {
		t.Errorf("the replica that does not lead wrote %v, the leader %v", got, first.to(""))
	}

	stopFirst()
	q, r := partition("q", 1), partition("r", 1)
	create(t, q)
	eventually(t, "partition after the leader left", placedOn(q, "a"))
	create(t, r)
	eventually(t, "partition beyond what is left", notPlaced(r, "1 insufficient space"))
	if get(t, p); p.Spec.NodeName != "a" {
		t.Errorf("the first placement became %q", p.Spec.NodeName)
	}
}

// Package install installs the product in the lab: the chart of this checkout,
// with the images that the guests hold.
package install

import (
	"context"
	"fmt"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/distort-io/distort/e2e/internal/command"
)

const (
	// Release is the name of the installation.
	Release = "distort"
	// Namespace is where it is installed.
	Namespace = "distort-system"
	// timeout is what the product's pods may take to become ready in emulated
	// guests.
	timeout = "5m"
)

// Chart is an installation of the chart.
type Chart struct {
	// Helm is the program.
	Helm string
	// Repo is the root of the checkout.
	Repo string
	// Kubeconfig is an administrator's.
	Kubeconfig string
	// Set are values, as "path=text", beside those of e2e/values.yaml.
	Set []string
	// Values are further ones, as "path=value", which may be numbers and booleans.
	Values []string
	// Run runs helm.
	Run command.Runner
}

// Install installs or upgrades the release and waits until its pods are ready.
func (c Chart) Install(ctx context.Context) error {
	if err := c.helm(ctx, c.upgrade()...); err != nil {
		return fmt.Errorf("install the chart: %w", err)
	}
	return nil
}

func (c Chart) upgrade() []string {
	args := []string{"upgrade", "--install", Release, filepath.Join(c.Repo, "charts", "distort"), "--create-namespace",
		"--values", filepath.Join(c.Repo, "e2e", "values.yaml"), "--wait", "--timeout", timeout}
	for _, value := range c.Set {
		args = append(args, "--set-string", value)
	}
	for _, value := range c.Values {
		args = append(args, "--set", value)
	}
	return args
}

// selector picks the product's pods.
const selector = "app.kubernetes.io/name=distort"

// Restart deletes the product's pods, so that new ones start from the images
// of that name that the nodes have now.
func Restart(ctx context.Context, client kubernetes.Interface) error {
	err := client.CoreV1().Pods(Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("restart the product: %w", err)
	}
	return nil
}

// Uninstall removes the release. Its CRDs stay, as the chart wants it.
func (c Chart) Uninstall(ctx context.Context) error {
	if err := c.helm(ctx, "uninstall", Release, "--wait", "--timeout", timeout); err != nil {
		return fmt.Errorf("uninstall the chart: %w", err)
	}
	return nil
}

func (c Chart) helm(ctx context.Context, args ...string) error {
	return c.Run.Run(ctx, c.Helm, append(args, "--namespace", Namespace, "--kubeconfig", c.Kubeconfig)...)
}

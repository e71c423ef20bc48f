package app

import (
	"context"
	"fmt"
	"sync/atomic"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/controller"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// newController makes the service and starts its informers.
func (p *parts) newController(ctx context.Context, o Options, config *rest.Config) (*controller.Server, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	informers, err := cache.New(config, controller.CacheOptions(scheme, o.Namespace))
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	reader, err := client.New(config, client.Options{Scheme: scheme, Cache: &client.CacheOptions{Reader: informers}})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	live, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	server, err := controller.New(ctx, controller.Options{
		Namespace:     o.Namespace,
		Defaults:      request.Defaults{Backend: v1alpha1.TargetBackend(o.DefaultBackend), TopologyKey: o.TopologyKey},
		DefaultDomain: v1alpha1.DomainName(o.DefaultNetworkDomain),
		Cache:         informers, Client: reader, Live: live,
	})
	if err != nil {
		return nil, err
	}
	var synced atomic.Bool
	p.ready.requireToServe("caches synced", synced.Load)
	p.group.Go(func() error { return informers.Start(ctx) })
	p.group.Go(func() error {
		synced.Store(informers.WaitForCacheSync(ctx))
		return nil
	})
	return server, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, storagev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("scheme: %w", err)
		}
	}
	return scheme, nil
}

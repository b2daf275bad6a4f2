package controllers

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// optionalKinds are kinds that may not be installed. A controller watches each as soon as the API server serves
// it.
type optionalKinds struct {
	manager    manager.Manager
	controller controller.Controller
	served     sync.Map // watched schema.GroupVersionKinds
}

// watch makes the controller watch the objects of a kind, now or once it is installed.
func (l *optionalKinds) watch(
	kind schema.GroupVersionKind, object client.Object, handler handler.EventHandler, isChanged predicate.Predicate,
) error {
	return whenInstalled(l.manager, kind, func() error {
		l.served.Store(kind, true)
		return l.controller.Watch(source.Kind(l.manager.GetCache(), object, handler, isChanged))
	})
}

// isInstalled reports whether a kind is watched, so that its objects can be read.
func (l *optionalKinds) isInstalled(kind schema.GroupVersionKind) bool {
	_, ok := l.served.Load(kind)
	return ok
}

// whenInstalled calls watch for a kind that may not be installed. It calls it immediately if the API server serves
// the kind, so that the first reconciliation has complete data. Otherwise it calls it as soon as the API server
// does.
func whenInstalled(mgr manager.Manager, kind schema.GroupVersionKind, watch func() error) error {
	return whenInstalledUnless(mgr, kind, func() bool { return false }, watch)
}

// whenInstalledUnless is whenInstalled for a kind that is not needed any more, and not asked for, once isReplaced
// returns true.
func whenInstalledUnless(
	mgr manager.Manager, kind schema.GroupVersionKind, isReplaced func() bool, watch func() error,
) error {
	if isReplaced() {
		return nil
	}
	isInstalled := func() (bool, error) {
		_, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return err == nil, err
	}
	installed, err := isInstalled()
	switch {
	case err != nil:
		return fmt.Errorf("check whether kind %s is installed: %w", kind.Kind, err)
	case installed:
		return watch()
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		poll := func(context.Context) (bool, error) {
			if isReplaced() {
				return true, nil
			}
			installed, err := isInstalled()
			if err != nil {
				mgr.GetLogger().Error(err, "check of an optional kind failed", "kind", kind.Kind)
			}
			return installed, nil
		}
		if err := wait.PollUntilContextCancel(ctx, pollInterval, true, poll); err != nil {
			return nil //nolint:nilerr // the only error is a canceled context
		}
		if isReplaced() {
			return nil
		}
		return watch()
	}))
}

package controllers

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// lateKinds are kinds that need not be installed: a controller watches each as soon as the API server has it.
type lateKinds struct {
	manager    manager.Manager
	controller controller.Controller
	served     sync.Map // the kinds that are watched
}

// watch has the controller watch the objects of a kind, now or once it is installed.
func (l *lateKinds) watch(
	kind schema.GroupVersionKind, object client.Object, handler handler.EventHandler, isOther predicate.Predicate,
) error {
	return onceServed(l.manager, kind, func() error {
		l.served.Store(kind, true)
		return l.controller.Watch(source.Kind(l.manager.GetCache(), object, handler, isOther))
	})
}

// isServed says whether a kind is watched, so that objects of it can be read.
func (l *lateKinds) isServed(kind schema.GroupVersionKind) bool {
	_, is := l.served.Load(kind)
	return is
}

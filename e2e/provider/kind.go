package provider

import (
	"context"
	"fmt"
)

// kind is a cluster of https://kind.sigs.k8s.io.
type kind struct{ Options }

// Up implements Provider.
func (*kind) Up(context.Context, Wishes) (*Cluster, error) {
	return nil, fmt.Errorf("%w: kind is not written yet", ErrUnfit)
}

// Owns implements Provider.
func (*kind) Owns() bool { return false }

// Down implements Provider.
func (*kind) Down(context.Context) error { return nil }

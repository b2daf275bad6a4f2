package apiserver

// RolloutsRole gives the Argo Rollouts controller's ServiceAccount those rules of its own ClusterRole that routers
// require (argo-rollouts manifests/role/argo-rollouts-clusterrole.yaml).
const RolloutsRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: argo-rollouts}
rules:
- {apiGroups: [argoproj.io], resources: [rollouts], verbs: [get, list, watch, update, patch]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, get, update]}
- {apiGroups: [""], resources: [endpoints], verbs: [get]}
- {apiGroups: [""], resources: [events], verbs: [create, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: argo-rollouts}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: argo-rollouts}
subjects:
- {kind: ServiceAccount, name: argo-rollouts, namespace: argo-rollouts}
`

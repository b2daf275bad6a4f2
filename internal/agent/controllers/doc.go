// Package controllers carries out what package plan decides: it watches ScaledObjects, Rollouts and
// HTTPScaledObjects and keeps the HTTPScaledObjects that the triggers of ScaledObjects stand for.
//
// It writes by server-side apply and knows its own fields only. What others write on the same
// objects, such as the weights of a canary, is never touched.
//
// It also carries out what packages autowire and proxies decide, a namespace at a time: see Autowirer and Installer.
package controllers

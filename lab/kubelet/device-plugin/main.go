// device-plugin offers COUNT devices of one resource to the kubelet and names each container's devices in its
// environment: LAB_DEVICES=gpu-1,gpu-2.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
)

func main() {
	resource := flag.String("resource", "nvidia.com/gpu", "name of the resource")
	count := flag.Int("count", 4, "number of devices, named gpu-0, gpu-1, ...")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	var devices []*api.Device
	for index := range *count {
		devices = append(devices, &api.Device{ID: fmt.Sprintf("gpu-%d", index), Health: api.Healthy})
	}
	socket := filepath.Join(api.DevicePluginPath, "lab-"+strings.NewReplacer("/", "-", ".", "-").Replace(*resource)+".sock")
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		log.Fatal(err)
	}
	stub := plugin.NewDevicePluginStub(klog.Background(), devices, socket, *resource, false, false)
	stub.SetAllocFunc(allocate)
	if err := stub.Start(ctx); err != nil {
		log.Fatal(err)
	}
	if err := stub.Register(ctx, api.KubeletSocket, *resource, api.DevicePluginPath); err != nil {
		log.Fatal(err)
	}
	// Registers again after each restart of the kubelet.
	go stub.Watch(ctx, api.KubeletSocket, *resource, api.DevicePluginPath)
	<-ctx.Done()
	if err := stub.Stop(klog.Background()); err != nil {
		log.Fatal(err)
	}
}

func allocate(request *api.AllocateRequest, _ map[string]*api.Device) (*api.AllocateResponse, error) {
	var response api.AllocateResponse
	for _, container := range request.ContainerRequests {
		environment := map[string]string{"LAB_DEVICES": strings.Join(container.DevicesIds, ",")}
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{Envs: environment})
	}
	return &response, nil
}

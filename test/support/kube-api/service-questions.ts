import { type Questions } from './questions.ts';

/** Where the objects are that are about Services, of all namespaces. */
export const serviceQuestions: Questions = {
  Service: { path: '/api/v1/services', apiVersion: 'v1' },
  EndpointSlice: { path: '/apis/discovery.k8s.io/v1/endpointslices', apiVersion: 'discovery.k8s.io/v1' },
  Node: { path: '/api/v1/nodes', apiVersion: 'v1' },
  VirtualIP: { path: '/apis/vipnat.io/v1alpha1/virtualips', apiVersion: 'vipnat.io/v1alpha1' },
  AddressPool: { path: '/apis/vipnat.io/v1alpha1/addresspools', apiVersion: 'vipnat.io/v1alpha1' },
};

/** Where those are that a controller follows, where the API has no ServiceCIDRs. */
export const controllerQuestions: Questions = {
  ...serviceQuestions,
  EndpointSlice: {
    path: '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices',
    apiVersion: 'discovery.k8s.io/v1',
    allPath: '/apis/discovery.k8s.io/v1/endpointslices',
  },
  Pod: { path: '/api/v1/pods', apiVersion: 'v1' },
  Namespace: { path: '/api/v1/namespaces', apiVersion: 'v1' },
  Lease: {
    path: '/apis/coordination.k8s.io/v1/namespaces/vipnat-system/leases',
    apiVersion: 'coordination.k8s.io/v1',
  },
};

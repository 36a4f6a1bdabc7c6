import { type Questions } from './kube-api.ts';

/** Where the objects are that are about Services, of all namespaces. */
export const serviceQuestions: Questions = {
  Service: { path: '/api/v1/services', apiVersion: 'v1' },
  EndpointSlice: { path: '/apis/discovery.k8s.io/v1/endpointslices', apiVersion: 'discovery.k8s.io/v1' },
  VirtualIP: { path: '/apis/vipnat.io/v1alpha1/virtualips', apiVersion: 'vipnat.io/v1alpha1' },
  AddressPool: { path: '/apis/vipnat.io/v1alpha1/addresspools', apiVersion: 'vipnat.io/v1alpha1' },
};

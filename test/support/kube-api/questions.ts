import { type Kind } from './kube-store.ts';

/** Where objects of a kind are, and where all of them are if the path is one namespace's. */
export type Questions = Readonly<
  Partial<Record<Kind, { path: string; apiVersion: string; allPath?: string }>>
>;

/** What the agent of the API's virtual IP asks for. */
export const agentQuestions: Questions = {
  EndpointSlice: {
    path: '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices',
    apiVersion: 'discovery.k8s.io/v1',
  },
  Service: { path: '/api/v1/namespaces/default/services', apiVersion: 'v1' },
};

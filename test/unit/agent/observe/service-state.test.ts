import { expect, test } from '@jest/globals';
import { rememberApiservers } from '../../../../agent/endpoints/remember.ts';
import { type Observation } from '../../../../agent/observe/observe.ts';
import {
  emptyServiceState,
  recallFamily,
  type ServiceState,
} from '../../../../agent/observe/service-state.ts';
import { formatEndpoint } from '../../../../lib/address/endpoint.ts';
import { readIptablesProxy } from '../../../../lib/kube-proxy/iptables.ts';
import { type ServicePort } from '../../../../lib/kube-proxy/service-port.ts';
import { kubernetesService } from '../../../../lib/kube-proxy/kubernetes-service.ts';
import { lookOnce, restoreCaptures } from '../../../support/agent/captured-host.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { webService } from '../../../support/kube-proxy/rules.ts';

/** A look at a capture in which kube-proxy is read for that Service. */
async function observe(capture: string, service: ServicePort): Promise<Observation> {
  const kernel = restoreCaptures([`iptables-nft-save.${capture}.txt`]);
  const { observation } = await lookOnce(kernel, ordinaryConfig);
  const iptables = observation.rulesets
    .filter(({ family }) => family === 'ipv4')
    .map((ruleset) => ({ dialect: ruleset.dialect, view: readIptablesProxy(ruleset, service) }));
  return {
    ...observation,
    views: { ...observation.views, ipv4: { ...observation.views.ipv4, iptables } },
  };
}

/** What is left of a Service after looks at these captures. */
async function remember(captures: readonly string[], service: ServicePort): Promise<ServiceState> {
  let state = emptyServiceState;
  for (const capture of captures) {
    const observation = await observe(capture, service);
    state = { ...state, ...rememberApiservers({ observation, config: ordinaryConfig, memory: state }) };
  }
  return state;
}

test('what is left of one Service is not mixed with what is left of another on the same host', async () => {
  const captures = ['three-endpoints', 'two-endpoints'];
  const kubernetes = recallFamily(await remember(captures, kubernetesService), 'ipv4');
  const web = recallFamily(await remember(captures, webService), 'ipv4');
  expect(kubernetes.endpoints?.value.map(formatEndpoint)).toEqual(['10.77.0.11:6443', '10.77.0.12:6443']);
  expect(kubernetes.previousEndpoints.map(formatEndpoint)).toEqual(['10.77.0.13:6443']);
  expect(web.endpoints?.value.map(formatEndpoint)).toEqual(['10.244.3.7:8080', '10.244.3.8:8080']);
  expect(web.previousEndpoints).toEqual([]);
});

test('nothing is left of a family of which nothing was heard', async () => {
  const state = await remember(['three-endpoints'], webService);
  expect(recallFamily(state, 'ipv6')).toEqual(recallFamily(emptyServiceState, 'ipv6'));
  expect(recallFamily(emptyServiceState, 'ipv4')).toEqual({
    endpoints: null,
    previousEndpoints: [],
    affinitySeconds: null,
    proxyBesideApi: [],
  });
});

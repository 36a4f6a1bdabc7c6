import { readCapture } from '../../../support/kube-proxy/read-capture.ts';
import { test, expect } from '@jest/globals';
import {
  type ServicePortName,
  isNftAffinitySet,
  kubernetesService,
} from '../../../../lib/kube-proxy/read.ts';
import { webService } from '../../../support/kube-proxy/rules.ts';

const capture = readCapture('nft-kube-proxy.client-ip-affinity.txt');

/** The names of the capture's sets. */
const sets = [...capture.matchAll(/^\tset (\S+) \{$/gm)].map(([, name = '']) => name);

test("a set of clients is known as that of its Service's endpoints", () => {
  const isOf = (service: ServicePortName) => sets.filter((name) => isNftAffinitySet(service, name));
  expect(isOf(kubernetesService)).toHaveLength(3);
  expect(isOf(webService)).toEqual([]);
  expect(isOf({ ...kubernetesService, portName: 'http' })).toEqual([]);
  expect(isOf({ ...kubernetesService, name: 'kube' })).toEqual([]);
});

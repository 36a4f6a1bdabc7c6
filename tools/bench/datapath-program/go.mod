module vipnat/datapath

go 1.22

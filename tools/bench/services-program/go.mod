module vipnat/services

go 1.22
